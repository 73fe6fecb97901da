// The graph itself: what it knows of its tensors and operations.
#include "runtime/graph/graph.h"

#include <ctime>

#include "collectives/error.h"
#include "runtime/graph/operations/add.h"
#include "runtime/graph/operations/contraction.h"
#include "runtime/graph/operations/identity.h"
#include "tests/support/catch.h"

namespace meshwork::graph_test {

namespace {

TensorId add_input(Graph& graph, Shape shape) {
  GraphTensor tensor;
  tensor.shape = std::move(shape);
  tensor.role = TensorRole::input;
  tensor.path = "input";
  return graph.add_tensor(std::move(tensor));
}

}  // namespace

TEST_CASE("a shape is asked for with the length of the batch") {
  Graph graph;
  const TensorId batched = add_input(graph, {-1, 3});
  const TensorId fixed = add_input(graph, {4, 3});
  const TensorId scalar = add_input(graph, {});
  CHECK(graph.shape_of(batched, 50) == Shape{50, 3});
  CHECK(graph.shape_of(batched, 0) == Shape{0, 3});
  CHECK(graph.shape_of(fixed, 50) == Shape{4, 3});
  CHECK(graph.shape_of(scalar, 50) == Shape{});
}

TEST_CASE("tensors know who makes and who uses them") {
  Graph graph;
  const TensorId x = add_input(graph, {-1, 3});
  const TensorId y = graph.add_operation(std::make_shared<IdentityOperation>(), {x}, -1, "a");
  const TensorId z = graph.add_operation(std::make_shared<AddOperation>(2), {y, y}, -1, "b");
  CHECK(graph.tensors[x].producer == -1);
  CHECK(graph.tensors[x].consumers == std::vector<int>{0});
  CHECK(graph.tensors[y].producer == 0);
  CHECK(graph.tensors[y].consumers == std::vector<int>{1, 1});  // one for each use
  CHECK(graph.tensors[z].producer == 1);
  CHECK(graph.tensors[z].shape == Shape{-1, 3});
  CHECK(graph.tensors[z].role == TensorRole::value);
  CHECK(graph.operations[1].inputs == std::vector<TensorId>{y, y});
}

TEST_CASE("operations of one path are told apart by a number") {
  Graph graph;
  const TensorId x = add_input(graph, {-1, 3});
  for (const std::string expected : {"d1/identity", "d1/identity_1", "d1/identity_2"}) {
    static_cast<void>(
        graph.add_operation(std::make_shared<IdentityOperation>(), {x}, -1, "d1/identity"));
    CHECK(graph.operations.back().path == expected);
  }
}

TEST_CASE("the time to name operations grows with their number, not with its square") {
  const auto seconds_of = [](int count) {
    Graph graph;
    const TensorId x = add_input(graph, {-1, 3});
    const std::clock_t start = std::clock();
    for (int i = 0; i < count; ++i) {
      static_cast<void>(
          graph.add_operation(std::make_shared<IdentityOperation>(), {x}, -1, "same"));
      static_cast<void>(graph.add_operation(std::make_shared<IdentityOperation>(), {x}, -1,
                                            fmt::format("layer{}/identity", i)));
    }
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    CHECK(graph.operations.back().path == fmt::format("layer{}/identity", count - 1));
    CHECK(graph.operations[graph.operations.size() - 2].path == fmt::format("same_{}", count - 1));
    return seconds;
  };
  const double of_some = seconds_of(5'000);
  CHECK(seconds_of(80'000) < 96 * of_some);  // 256 times where each is held against all the others
}

TEST_CASE("an error of an operation names it, and the graph stays as it was") {
  Graph graph;
  const TensorId x = add_input(graph, {-1, 3});
  const TensorId y = add_input(graph, {-1, 4});
  CHECK_THROWS_WITH(graph.add_operation(std::make_shared<AddOperation>(2), {x, y}, -1, "sum/add"),
                    Catch::StartsWith("sum/add: expected inputs of equal shapes"));
  CHECK(graph.tensors.size() == 2);
  CHECK(graph.operations.empty());
  CHECK(graph.tensors[x].consumers.empty());
}

TEST_CASE("paths are of variables and outputs of layers, and with inputs what can be laid out") {
  Graph graph;
  const TensorId x = add_input(graph, {-1, 3});
  const TensorId y = graph.add_operation(std::make_shared<IdentityOperation>(), {x}, -1, "a/id");
  const TensorId z = graph.add_operation(std::make_shared<IdentityOperation>(), {y}, -1, "b/id");
  graph.tensors[z].path = "b/output";
  GraphTensor kernel;
  kernel.role = TensorRole::variable;
  kernel.path = "d1/kernel";
  const TensorId k = graph.add_tensor(kernel);
  CHECK(graph.paths() == std::vector<std::string>{"b/output", "d1/kernel"});
  CHECK(graph.layout_paths() == graph.paths());
  graph.inputs = {x};
  CHECK(graph.layout_paths() == std::vector<std::string>{"b/output", "d1/kernel", "input"});
  CHECK(graph.find("b/output") == z);
  CHECK(graph.find("d1/kernel") == k);
  CHECK(graph.find("input") == x);
  CHECK(graph.find("d1") == -1);
  CHECK(graph.find("") == -1);
}

}  // namespace meshwork::graph_test

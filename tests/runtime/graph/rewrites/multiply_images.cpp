// Products over images that a model flattens first.
#include "runtime/device/kernels/activation.h"

#include "layers/activation.h"
#include "layers/dense.h"
#include "layers/flatten.h"
#include "layers/reshape.h"
#include "runtime/graph/operations/contraction.h"
#include "runtime/graph/operations/reshape.h"
#include "runtime/graph/rewrites/rewrites.h"
#include "tests/support/catch.h"

namespace meshwork::multiply_images_test {

namespace {

struct Joined {
  std::shared_ptr<const Graph> before, after;
  PlanRequest request;
};

Joined joined(const Graph& graph, const std::map<std::string, TensorLayout>& layouts = {}) {
  const auto before = std::make_shared<const Graph>(graph);
  Joined result{before,
                nullptr,
                {.graph = before.get(),
                 .losses = {{static_cast<int>(graph.operations.size()) - 1, 1}},
                 .mesh = MeshShape({{"data", 2}, {"rows", 2}}, 4),
                 .batch_axis = 0,
                 .closed = {},
                 .rows = 8,
                 .costs = {}}};
  for (const auto& [path, layout] : layouts) {
    result.request.closed[graph.find(path)] = {resolve(layout, result.request.mesh, path), path};
  }
  result.after = multiply_images(result.request, result.before);
  return result;
}

std::vector<std::string> paths_of(const Graph& graph) {
  std::vector<std::string> paths;
  for (const GraphOperation& operation : graph.operations) {
    paths.push_back(operation.path);
  }
  return paths;
}

}  // namespace

TEST_CASE("a dense layer multiplies an image that was flattened for it alone") {
  const auto x = Input({7, 5, 3});
  const auto hidden = ActivationLayer({.name = "relu", .activation = Activation::relu})(x);
  const auto flat = Flatten()(hidden);
  const auto y = Dense({.name = "d1", .units = 4})(flat);
  const Graph graph = make_graph({x}, {y});
  const Joined result = joined(graph);
  CHECK(paths_of(*result.after) == std::vector<std::string>{"relu/relu", "d1/product", "d1/bias"});
  const GraphOperation& product = result.after->operations[1];
  CHECK(product.inputs[0] == result.after->operations[0].output);
  CHECK(dynamic_cast<const ContractionOperation&>(*product.operation).equation() ==
        "btuv,(tuv)o->bo");
  CHECK(result.request.graph == result.after.get());
  CHECK(result.request.losses == std::map<int, double>{{2, 1}});

  // Tensors keep their numbers, and know who makes and uses them.
  REQUIRE(result.after->tensors.size() == graph.tensors.size());
  const TensorId between = graph.find("flatten/output");
  CHECK(result.after->tensors[between].producer == -1);
  CHECK(result.after->tensors[between].consumers.empty());
  CHECK(result.request.closed.at(between).reason == "flattened within d1/product");
  CHECK(result.after->tensors[graph.find("relu/output")].consumers == std::vector<int>{1});
  CHECK(result.after->tensors[graph.find("d1/output")].producer == 2);
  CHECK(graph.operations.size() == 4);  // the model's own graph stays as it was

  const Plan plan = make_plan(result.request, result.after);
  CHECK(plan.tensors[between].layout.dimensions[0] == std::vector<Axis>{0});
}

TEST_CASE("only the last dimensions may be merged") {
  const auto x = Input({4, 5, 3});
  const auto rows = Reshape({.target_shape = {4, 15}})(x);
  const Graph joins = make_graph({x}, {Dense({.units = 2})(rows)});
  const Joined result = joined(joins);
  REQUIRE(result.after->operations.size() == 2);
  CHECK(dynamic_cast<const ContractionOperation&>(*result.after->operations[0].operation)
            .equation() == "btuv,(uv)o->bto");

  const auto merged = Reshape({.target_shape = {20, 3}})(x);
  const Graph other = make_graph({x}, {Dense({.units = 2})(merged)});
  const Joined same = joined(other);
  CHECK(same.after == same.before);
}

TEST_CASE("a flattened image that is seen, laid out or used otherwise stays one") {
  const auto x = Input({7, 5, 3});
  const auto flat = Flatten()(x);
  const auto y = Dense({.name = "d1", .units = 4})(flat);
  const Graph seen = make_graph({x}, {y, flat});
  CHECK(joined(seen).after->operations.size() == seen.operations.size());

  const Graph laid_out = make_graph({x}, {y});
  CHECK(joined(laid_out, {{"flatten/output", {"data", "rows"}}}).after->operations.size() == 3);

  const auto twice = Dense({.name = "d2", .units = 4})(flat);
  const Graph used_twice = make_graph({x}, {y, twice});
  CHECK(joined(used_twice).after->operations.size() == used_twice.operations.size());

  const Graph not_multiplied =
      make_graph({x}, {ActivationLayer({.activation = Activation::relu})(flat)});
  CHECK(joined(not_multiplied).after->operations.size() == 2);
}

}  // namespace meshwork::multiply_images_test

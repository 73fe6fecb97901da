// Plans of small dense networks, held against splits and collectives worked out by hand.
#include "runtime/device/kernels/sgd.h"
#include "runtime/graph/plan.h"

#include "runtime/graph/lower.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operations/activation.h"
#include "runtime/graph/operations/bias.h"
#include "runtime/graph/operations/contraction.h"
#include "tests/support/catch.h"

namespace meshwork::planner_test {

namespace {

// The sum of everything, as a loss is one.
class SumOperation final : public Operation {
 public:
  std::string kind() const override { return "sum"; }
  Shape output_shape(std::span<const Shape>) const override { return {}; }
  Rule rule(std::span<const Shape> inputs) const override {
    return {{std::string("bo").substr(0, inputs[0].size())}, "", "", ""};
  }
  void forward(Lowering& lowering) const override { (void)lowering.output(); }
  void backward(Lowering& lowering) const override { (void)lowering.input_gradient(0); }
};

// input (b, widths[0]) -> dense d1 -> ... with ReLU between; a loss behind the last.
struct Network {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  int loss = -1;

  explicit Network(const std::vector<std::int64_t>& widths) {
    TensorId x =
        graph->add_tensor({.shape = {-1, widths[0]}, .role = TensorRole::input, .path = "input"});
    graph->inputs = {x};
    for (std::size_t i = 1; i < widths.size(); ++i) {
      const std::string layer = "d" + std::to_string(i);
      graph->layers.push_back({layer, "Dense", -1});
      const int index = static_cast<int>(i) - 1;
      const TensorId kernel = variable(layer + "/kernel", {widths[i - 1], widths[i]});
      const TensorId bias = variable(layer + "/bias", {widths[i]});
      x = graph->add_operation(std::make_shared<ContractionOperation>("bi,io->bo"), {x, kernel},
                               index, layer + "/product");
      x = graph->add_operation(std::make_shared<BiasOperation>(), {x, bias}, index,
                               layer + "/bias");
      if (i + 1 < widths.size()) {
        x = graph->add_operation(std::make_shared<ActivationOperation>(Activation::relu), {x},
                                 index, layer + "/relu");
      }
      graph->tensors[x].path = layer + "/output";
      graph->layers[index].output = x;
    }
    graph->outputs = {x};
    loss = static_cast<int>(graph->operations.size());
    (void)graph->add_operation(std::make_shared<SumOperation>(), {x}, -1, "loss");
  }

  TensorId variable(const std::string& path, Shape shape) {
    const int index = static_cast<int>(graph->variables.size());
    const TensorId id = graph->add_tensor(
        {.shape = shape, .role = TensorRole::variable, .path = path, .variable = index});
    graph->variables.push_back({path, {.shape = shape}, id});
    return id;
  }

  [[nodiscard]] Plan plan(const std::vector<MeshAxis>& axes, std::optional<std::string> batch_axis,
                          const std::map<std::string, TensorLayout>& layouts,
                          std::int64_t rows = 64) const {
    std::int64_t ranks = 1;
    for (const MeshAxis& axis : axes) {
      ranks *= axis.size;
    }
    PlanRequest request{graph.get(), {{loss, 1}}, MeshShape(axes, ranks), std::nullopt, {},
                        rows,        {}};
    if (batch_axis) {
      request.batch_axis = request.mesh.axis(*batch_axis);
    }
    for (const auto& [path, layout] : layouts) {
      const TensorId id = graph->find(path);
      REQUIRE(id >= 0);
      request.closed[id] = {resolve(layout, request.mesh, path), "key " + path};
    }
    return make_plan(request, graph);
  }

  [[nodiscard]] std::string layout(const Plan& plan, const std::string& path) const {
    return to_string(plan.tensors[graph->find(path)].layout, plan.mesh);
  }
};

struct Sent {
  std::string phase, kind, axes;
  std::int64_t bytes;
  bool operator==(const Sent&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Sent& sent) {
  return out << sent.phase << ' ' << sent.kind << " over " << sent.axes << ": " << sent.bytes;
}

// The collectives of a training step on rank 0.
std::vector<Sent> collectives(const Plan& plan, std::int64_t rows = 64) {
  const ParameterForm form = parameter_form(plan, 0);
  const UpdateRule update{.kernel = [](const UpdatedBlock& block) { return SgdSpec{block.count}; }};
  LoweringRequest request;
  request.plan = &plan;
  request.rows = rows;
  request.update = &update;
  request.form = &form;
  ProgramBuilder builder;
  const auto planned = plan_collectives(plan.mesh, 0);
  (void)lower(request, builder, *planned);
  std::vector<Sent> sent;
  for (const CollectiveRecord& record : planned->records()) {
    std::string axes;
    for (const Axis axis : record.axes) {
      axes += (axes.empty() ? "" : "+") + plan.mesh.name(axis);
    }
    sent.push_back({record.purpose.phase, std::string(record.name), axes, record.bytes_sent});
  }
  return sent;
}

}  // namespace

TEST_CASE("one rank plans no collectives and fuses each dense layer into one operation") {
  const Network network({12, 8, 4});
  const Plan plan = network.plan({{"data", 1}}, "data", {});
  CHECK(collectives(plan).empty());
  REQUIRE(plan.operations.size() == 3);
  CHECK(plan.operations[0].path == "d1/product+bias+relu");
  CHECK(plan.operations[1].path == "d2/product+bias");
}

TEST_CASE("data parallelism reduces all gradients in one bucket, and the sums") {
  const Network network({12, 8, 4});
  const Plan plan = network.plan({{"data", 2}}, "data", {});
  CHECK(network.layout(plan, "d1/output") == "[data, ~]");
  CHECK(network.layout(plan, "d1/kernel") == "[~, ~]");
  // 12*8 + 8 + 8*4 + 4 = 140 gradients; 2(n-1)/n = 1 for two ranks. The sum: one float64.
  CHECK(collectives(plan) == std::vector<Sent>{{"backward", "all_reduce", "data", 140 * 4},
                                               {"metrics", "all_reduce", "data", 8}});
}

TEST_CASE("a column split followed by a row split needs one all-reduce forward and one backward") {
  const Network network({12, 8, 4, 2});
  const Plan plan = network.plan({{"model", 2}}, std::nullopt,
                                 {{"d2/kernel", {unsharded, "model"}},
                                  {"d2/bias", {"model"}},
                                  {"d3/kernel", {"model", unsharded}}});
  CHECK(network.layout(plan, "d2/output") == "[~, model]");
  CHECK(network.layout(plan, "d3/output") == "[~, ~]");
  // Forward d3's output, 64 x 2; backward the gradient of d1's output, 64 x 8. Nothing else moves.
  CHECK(collectives(plan) == std::vector<Sent>{{"forward", "all_reduce", "model", 64 * 2 * 4},
                                               {"backward", "all_reduce", "model", 64 * 8 * 4}});
}

TEST_CASE("weights stored over the batch axis are gathered for use and their gradients scattered") {
  const Network network({12, 8, 4});
  const Plan plan = network.plan({{"data", 2}}, "data",
                                 {{"d1/kernel", {"data", unsharded}},
                                  {"d1/bias", {"data"}},
                                  {"d2/kernel", {"data", unsharded}},
                                  {"d2/bias", {"data"}}});
  CHECK(network.layout(plan, "d1/output") == "[data, ~]");
  const std::vector<Sent> sent = collectives(plan);
  // Gathered forward: both kernels and biases; again for backward: d2's kernel, since the gradient
  // of d1's output needs it, and nothing else; every gradient scattered.
  CHECK(sent == std::vector<Sent>{{"forward", "all_gather", "data", 12 * 8 * 2},
                                  {"forward", "all_gather", "data", 8 * 2},
                                  {"forward", "all_gather", "data", 8 * 4 * 2},
                                  {"forward", "all_gather", "data", 4 * 2},
                                  {"backward", "all_gather", "data", 8 * 4 * 2},
                                  {"backward", "reduce_scatter", "data", 8 * 4 * 2},
                                  {"backward", "reduce_scatter", "data", 4 * 2},
                                  {"backward", "reduce_scatter", "data", 12 * 8 * 2},
                                  {"backward", "reduce_scatter", "data", 8 * 2},
                                  {"metrics", "all_reduce", "data", 8}});
}

TEST_CASE("gradients are reduced over data only where model splits the weights") {
  const Network network({12, 8, 4});
  const Plan plan = network.plan({{"data", 2}, {"model", 2}}, "data",
                                 {{"d1/kernel", {unsharded, "model"}}, {"d1/bias", {"model"}}});
  CHECK(network.layout(plan, "d1/output") == "[data, model]");
  for (const Sent& sent : collectives(plan)) {
    if (sent.phase == "metrics") {
      CHECK(sent == Sent{"metrics", "all_reduce", "data", 8});
    }
  }
}

TEST_CASE("an axis that no layout names splits nothing but the batch") {
  const Network network({12, 8, 4});
  const Plan plan = network.plan({{"data", 2}, {"model", 4}}, "data", {});
  for (const PlannedOperation& operation : plan.operations) {
    for (const auto& [letter, axes] : operation.split) {
      CHECK(axes == std::vector<Axis>{0});
    }
  }
}

TEST_CASE("an output that is laid out without the batch axis frees it") {
  const Network network({12, 8, 4});
  const Plan plan = network.plan({{"data", 2}}, "data", {{"d1/output", {unsharded, "data"}}});
  CHECK(network.layout(plan, "d1/output") == "[~, data]");
  CHECK(network.layout(plan, "d2/output") == "[data, ~]");
}

TEST_CASE("a product is not computed whole on every rank where splitting it takes less time") {
  // Columns of d2's result go to the user's layout from wherever it is computed; d1 is nobody's.
  const std::map<std::string, TensorLayout> layouts{{"d2/output", {unsharded, "model"}}};
  const std::vector<MeshAxis> axes{{"model", 4}};
  // 64 x 16 x 16 products take 0.2 us, less than any message; 2048 x 1024 x 1024 take 30 ms, and
  // each rank can do a quarter of them before 3/4 of the result are gathered.
  const Network small({16, 16, 16}), large({1024, 1024, 1024});
  CHECK(small.plan(axes, std::nullopt, layouts).operations[0].split.empty());
  const Plan plan = large.plan(axes, std::nullopt, layouts, 2048);
  for (const PlannedOperation& operation : plan.operations) {
    INFO(operation.path);
    CHECK(operation.split.size() == 1);
  }
  // Two products, forward and two gradients for each: but nobody needs that of the input.
  const double whole = 2.0 * 2048 * 1024 * 1024 / plan.costs.flops_per_second;
  CHECK(longest(plan.seconds).arithmetic > 5 * whole / 4);
  CHECK(longest(plan.seconds).arithmetic < 5.1 * whole / 4);
}

namespace {

// Networks of `layers` layers, every other one split by columns and the next by rows.
Plan deep_plan(int layers, std::int64_t data, std::int64_t model) {
  std::map<std::string, TensorLayout> layouts;
  for (int i = 1; i <= layers; i += 2) {
    layouts["d" + std::to_string(i) + "/kernel"] = {unsharded, "model"};
    layouts["d" + std::to_string(i + 1) + "/kernel"] = {"model", unsharded};
  }
  const Network network(std::vector<std::int64_t>(layers + 1, 64));
  return network.plan({{"data", data}, {"model", model}}, "data", layouts, 65536);
}

}  // namespace

TEST_CASE("planning takes as much for any number of ranks, and in proportion to the layers") {
  // Were ranks enumerated anywhere, the last of these, 2^40 of them, would not end.
  const PlanningWork few = deep_plan(100, 2, 2).work;
  for (const std::int64_t size : {16, 4096, 1 << 20}) {
    const PlanningWork many = deep_plan(100, size, size).work;
    CHECK(many.candidates == few.candidates);
    CHECK(many.redistributions == few.redistributions);
  }
  const PlanningWork deep = deep_plan(1000, 2, 2).work;
  CHECK(deep.candidates < 11 * few.candidates);
  // More layers like those before have no layouts that are new.
  CHECK(deep.redistributions == few.redistributions);
}

TEST_CASE("a thousand layers are planned and lowered for a mesh of 65536 ranks") {
  CHECK(collectives(deep_plan(1000, 4096, 16), 65536).size() > 1000);
}

TEST_CASE("a plan tells of which operations not every way was weighed") {
  const Network network({128, 64, 32});
  const std::vector<MeshAxis> axes{{"data", 2}, {"a", 2}, {"b", 2}, {"c", 2}, {"d", 2}};
  // Three axes over b, i, o or nothing are 64 ways, of which 27 leave the output whole and 37
  // partial, to be reduced whole or over b or o; with a fourth it is 81 and 3 * 175.
  CHECK(network.plan(axes, "data", {{"d1/kernel", {{"a", "b"}, "c"}}}).cut.empty());
  const Plan plan = network.plan(axes, "data", {{"d1/kernel", {{"a", "b"}, {"c", "d"}}}});
  REQUIRE(plan.cut.size() == 2);
  CHECK(plan.cut[0].path == "d1/product");
  CHECK(plan.cut[0].candidates == 81 + 3 * 175);
  CHECK(plan.cut[0].weighed == 256);
  CHECK(plan.cut[1].path == "d2/product");
}

TEST_CASE("a mesh of six axes that are all in play prices each pair of layouts once") {
  const Network network({128, 64, 64, 64, 32});
  const Plan plan =
      network.plan({{"data", 2}, {"a", 2}, {"b", 2}, {"c", 2}, {"d", 2}, {"e", 2}}, "data",
                   {{"d1/kernel", {{"a", "b"}, "c"}},
                    {"d2/kernel", {"d", "e"}},
                    {"d3/kernel", {"e", {"b", "a"}}}});
  CHECK(network.layout(plan, "d1/kernel") == "[a+b, c]");
  CHECK(collectives(plan).size() > 2);
  // Five axes over the letters b, i, o of four products: some thousands each. Of these 256 stay,
  // beside 3^5 ways to spread what follows each product: a few hundred thousand pairs of layouts,
  // for four shapes. Pairs of candidates would be ten million and more.
  CHECK(plan.work.candidates < 20'000);
  CHECK(plan.work.redistributions < 400'000);
}

}  // namespace meshwork::planner_test

// Networks whose images are split by rows and columns: what their steps exchange, worked out by
// hand for meshes that need not be there; on the mesh that is there, the numbers of one rank, and
// what is really sent held against the plan.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "collectives/counting.h"
#include "layers/activation.h"
#include "layers/add.h"
#include "layers/convolution.h"
#include "layers/dense.h"
#include "layers/flatten.h"
#include "layers/pooling.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/graph/operation_windows.h"
#include "runtime/shape/block_parts.h"
#include "runtime/train/engine/engine.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/layer_spread.h"
#include "tests/support/plans.h"
#include "tests/support/window_sum.h"

namespace meshwork::windows_test {

using namespace meshwork::test;

namespace {

SharedLayer conv(const std::string& name, std::int64_t window, std::int64_t stride = 1,
                 Padding padding = Padding::same, std::int64_t filters = 3) {
  return Conv2D({.name = name,
                 .filters = filters,
                 .kernel_size = window,
                 .strides = stride,
                 .padding = padding,
                 .use_bias = false});
}

// By bytes alone, so that small images are not gathered to save a message.
Plan plan_of(const Shape& sample, const Build& build, const MeshShape& mesh,
             const LayoutEntries& entries, std::int64_t batch, const std::string& batch_axis = "",
             CostModel costs = {.latency_seconds = 0}) {
  return test::plan_of({.sample = sample, .build = build, .loss = MeanSquaredError()}, mesh,
                       entries, batch_axis, batch, costs);
}

struct Sent {
  std::string phase, axes, what;
  std::int64_t bytes;
  bool operator==(const Sent&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Sent& sent) {
  return out << sent.phase << ' ' << sent.what << " over " << sent.axes << ": " << sent.bytes;
}
using Sents = std::vector<Sent>;

// The halos of a training step on `rank`.
Sents halos(const Plan& plan, std::int64_t batch, std::int64_t rank, Mode mode = Mode::train) {
  Sents sent;
  const PlanReport report = report_plan(plan, mode, batch, rank, SGD().update_rule(), {});
  for (const CollectiveRecord& record : report.collectives) {
    if (record.name == "halo") {
      sent.push_back({record.purpose.phase, names_of(record.axes, plan.mesh), record.purpose.what,
                      record.bytes_sent});
    }
  }
  return sent;
}

const TensorLayout by_rows{unsharded, "rows", unsharded, unsharded};
const TensorLayout by_both{unsharded, "rows", "columns", unsharded};

// Two convolutions and a head.
Build two_convolutions() {
  return [](const SymbolicTensor& x) {
    return Dense({.name = "head", .units = 4})(
        Flatten({.name = "flat"})(conv("c2", 3)(conv("c1", 3)(x))));
  };
}

}  // namespace

TEST_CASE("a convolution brings one row from each side, and gives its gradient back") {
  const MeshShape mesh({{"rows", 4}}, 4);
  const Plan plan = plan_of({8, 8, 2}, two_convolutions(), mesh,
                            {{"c1/output", by_rows}, {"c2/output", by_rows}}, 2);
  // The images are on every rank, so that c1 cuts out what it needs. Of c1's output a row is
  // 2 images * 8 columns * 3 channels * 4 bytes.
  const std::int64_t row = 2 * 8 * 3 * 4;
  CHECK(halos(plan, 2, 0) == Sents{{"forward", "rows", "c1/output", row},
                                   {"backward", "rows", "c1/output gradient", row}});
  CHECK(halos(plan, 2, 1) == Sents{{"forward", "rows", "c1/output", 2 * row},
                                   {"backward", "rows", "c1/output gradient", 2 * row}});
  CHECK(halos(plan, 2, 1, Mode::predict) == Sents{{"forward", "rows", "c1/output", 2 * row}});
}

TEST_CASE("rows and columns are one exchange, corners included") {
  const MeshShape mesh({{"rows", 3}, {"columns", 3}}, 9);
  const Plan plan = plan_of({9, 9, 2}, two_convolutions(), mesh,
                            {{"c1/output", by_both}, {"c2/output", by_both}}, 2);
  // Blocks of 3 x 3. In the middle: to four sides 3 elements of the image, to four corners 1.
  const std::int64_t element = 2 * 3 * 4;
  CHECK(halos(plan, 2, 4) ==
        Sents{{"forward", "rows+columns", "c1/output", 16 * element},
              {"backward", "rows+columns", "c1/output gradient", 16 * element}});
  CHECK(halos(plan, 2, 0) ==
        Sents{{"forward", "rows+columns", "c1/output", 7 * element},
              {"backward", "rows+columns", "c1/output gradient", 7 * element}});
}

TEST_CASE("poolings whose windows end at the cuts exchange nothing") {
  const MeshShape mesh({{"rows", 4}}, 4);
  const Build build = [](const SymbolicTensor& x) {
    return Dense({.name = "head", .units = 4})(
        Flatten({.name = "flat"})(MaxPooling2D({.name = "pool"})(conv("c1", 3)(x))));
  };
  const LayoutEntries entries{{"c1/output", by_rows}, {"pool/output", by_rows}};
  CHECK(halos(plan_of({8, 8, 2}, build, mesh, entries, 2), 2, 1) == Sents{});
  // Of 12 rows, blocks of 3: the windows of the second rank's outputs [1, 3) are rows [2, 6).
  const std::int64_t row = 2 * 8 * 3 * 4;
  CHECK(
      halos(plan_of({12, 8, 2}, build, mesh, entries, 2), 2, 0) ==
      Sents{{"forward", "rows", "c1/output", row}, {"backward", "rows", "c1/output gradient", 0}});
}

TEST_CASE("uses that want the same box share one exchange, others have their own") {
  const MeshShape mesh({{"rows", 4}}, 4);
  const auto branches = [](std::int64_t window) -> Build {
    return [=](const SymbolicTensor& x) {
      const auto y = conv("c1", 3)(x);
      return Dense({.name = "head", .units = 4})(
          Flatten({.name = "flat"})(Add({.name = "sum"})({conv("a", 3)(y), conv("b", window)(y)})));
    };
  };
  const LayoutEntries entries{{"c1/output", by_rows}, {"a/output", by_rows}, {"b/output", by_rows}};
  // Blocks of eight rows, so that exchanging some costs less than dividing the images otherwise.
  const std::int64_t row = 2 * 8 * 3 * 4;
  CHECK(halos(plan_of({32, 8, 2}, branches(3), mesh, entries, 2), 2, 0) ==
        Sents{{"forward", "rows", "c1/output", row},
              {"backward", "rows", "c1/output gradient", row}});
  CHECK(halos(plan_of({32, 8, 2}, branches(5), mesh, entries, 2), 2, 0, Mode::evaluate) ==
        Sents{{"forward", "rows", "c1/output", row}, {"forward", "rows", "c1/output", 2 * row}});
}

TEST_CASE("what an exchange costs is counted for a rank in the middle") {
  const MeshShape mesh({{"rows", 4}}, 4);
  const Slide slide{3, 1, 1, true};
  const WindowSumOperation sums(slide);
  const std::vector<Shape> inputs{{2, 8, 8}};
  const Windows windows = windows_of(sums, sums.rule(inputs), {{'h', {0}}}, 0, inputs, {2, 8, 8});
  const CostModel costs{.latency_seconds = 1, .bytes_per_second = 64};
  // One latency, and two messages of one row: 2 images * 8 columns * 4 bytes.
  CHECK(exchange_seconds(windows, mesh, costs, false) == 1 + 2 * 64.0 / 64);
  CHECK(exchange_seconds(windows, mesh, costs, true) == 1 + 2 * 64.0 / 64);
  const Windows whole = windows_of(sums, sums.rule(inputs), {}, 0, inputs, {2, 8, 8});
  CHECK(exchange_seconds(whole, mesh, costs, false) == 0);
}

TEST_CASE("predicted seconds of a step count its exchanges") {
  const MeshShape mesh({{"rows", 4}}, 4);
  const Build one = [](const SymbolicTensor& x) {
    return Dense({.name = "head", .units = 4})(
        Flatten({.name = "flat"})(conv("c2", 1)(conv("c1", 3)(x))));
  };
  const LayoutEntries entries{{"c1/output", by_rows}, {"c2/output", by_rows}};
  const auto seconds = [&](const auto& layers) {
    const StepSeconds slowest = longest(plan_of({8, 8, 2}, layers, mesh, entries, 2).seconds);
    return slowest.communication + slowest.reduction;
  };
  const double without = seconds(one), with = seconds(two_convolutions());
  // Forward and backward, two rows each to the rank in the middle, and 8 times more of c2's kernel
  // (9 elements of the window instead of 1): 2 (n - 1) / n of 3 * 3 * 8 floats.
  const CostModel costs;
  const double halo = 2 * 2 * 8 * 3 * 4 / costs.bytes_per_second;
  const double kernel = 1.5 * 3 * 3 * 8 * 4 / costs.bytes_per_second;
  CHECK(with - without == Approx(2 * halo + kernel).epsilon(1e-6));
}

TEST_CASE("a report shows halos as text and as JSON") {
  const MeshShape mesh({{"rows", 4}}, 4);
  const Plan plan = plan_of({8, 8, 2}, two_convolutions(), mesh,
                            {{"c1/output", by_rows}, {"c2/output", by_rows}}, 2);
  const PlanReport report = report_plan(plan, Mode::train, 2, 1, SGD().update_rule(), {});
  CHECK_THAT(to_text(report), Catch::Contains("halo") && Catch::Contains("c1/output gradient"));
  CHECK_THAT(
      to_json(report),
      Catch::Contains("{\"phase\": \"forward\", \"collective\": \"halo\", \"axes\": "
                      "[\"rows\"], \"type\": \"float32\", \"elements\": 384, "
                      "\"bytes_sent\": 384, \"bytes_received\": 384, \"what\": \"c1/output\"}"));
}

TEST_CASE("a rule whose letters differ in length without windows is refused") {
  class Claims final : public Operation {
   public:
    std::string kind() const override { return "claims"; }
    Shape output_shape(std::span<const Shape> inputs) const override {
      return {inputs[0][0], inputs[0][1] / 2};
    }
    Rule rule(std::span<const Shape>) const override { return {.inputs = {"bh"}, .output = "bh"}; }
    void forward(Lowering&) const override {}
    void backward(Lowering&) const override {}
  };
  Graph graph;
  const TensorId x =
      graph.add_tensor({.shape = {-1, 8}, .role = TensorRole::input, .path = "input"});
  graph.inputs = {x};
  graph.outputs = {graph.add_operation(std::make_shared<Claims>(), {x}, -1, "layer/claims")};
  const auto shared = std::make_shared<Graph>(graph);
  const PlanRequest request{shared.get(), {}, MeshShape({{"rows", 2}}, 2), std::nullopt, {}, 4, {}};
  CHECK_THROWS_WITH(make_plan(request, shared),
                    Catch::Contains("layer/claims") &&
                        Catch::Contains("the letter 'h' for dimensions of 8 and of 4"));
}

TEST_CASE("fifty layers are planned for 65,536 ranks with as much work as for four") {
  const Build deep = [](const SymbolicTensor& x) {
    SymbolicTensor y = x;
    for (int i = 0; i < 50; ++i) {
      y = conv("c" + std::to_string(i), i % 3 == 0 ? 5 : 3)(y);
    }
    return y;
  };
  const auto planned = [&](std::int64_t size) {
    const MeshShape mesh({{"rows", size}, {"columns", size}}, size * size);
    return plan_of({2048, 2048, 3}, deep, mesh, {{"c.*/output", by_both}}, 1);
  };
  const Plan plan = planned(256);
  const Sents sent = halos(plan, 1, 128 * 256 + 128);
  CHECK(sent.size() == 2 * 49);
  // Blocks of 8 x 8; a 3 x 3 window wants 36 pixels from around, of 3 channels.
  CHECK(sent[0].bytes == 36 * 3 * 4);
  const PlanningWork few = planned(2).work;
  CHECK(plan.work.candidates == few.candidates);
  CHECK(plan.work.redistributions == few.redistributions);
  CHECK(plan.work.exchanges == few.exchanges);
}

namespace {

struct Setting {
  std::vector<MeshAxis> axes;
  LayoutEntries layouts;
  std::optional<std::string> batch_axis;
};

class WindowSumLayer final : public Layer {
 public:
  WindowSumLayer(std::string name, Slide slide) : Layer(std::move(name)), slide_(slide) {}
  std::string class_name() const override { return "WindowSum"; }
  TensorId build(LayerBuilder& builder, std::span<const TensorId> inputs) const override {
    return builder.apply(std::make_unique<WindowSumOperation>(slide_), {inputs[0]});
  }

 private:
  Slide slide_;
};

SharedLayer window_sum(const std::string& name, Slide slide) {
  return SharedLayer(std::make_shared<WindowSumLayer>(name, slide));
}

// Windows wider than blocks, strides, valid and same, on 7 x 5 images; two uses of one box.
Build network() {
  return [](const SymbolicTensor& x) {
    auto y = Dense({.name = "front", .units = 5})(x);
    y = window_sum("w1", {3, 1, 1, true})(y);
    y = ActivationLayer({.name = "relu", .activation = Activation::relu})(y);
    y = Add({.name = "sum"})(
        {window_sum("w2", {5, 1, 1, true})(y), y, window_sum("w3", {5, 1, 1, true})(y)});
    y = window_sum("w4", {3, 2, 1, true})(y);
    y = window_sum("w5", {2, 1, 1, false})(y);
    return Dense({.name = "head", .units = 4})(Flatten({.name = "flat"})(y));
  };
}

std::vector<Setting> settings(int ranks) {
  std::vector<Setting> all;
  const auto entries = [](const TensorLayout& layout, std::vector<std::string> layers) {
    LayoutEntries list;
    for (const std::string& layer : layers) list.emplace_back(layer + "/output", layout);
    return list;
  };
  const std::vector<std::string> every{"w1", "relu", "w2", "w3", "sum", "w4", "w5"};
  const TensorLayout rows_only{unsharded, "rows", unsharded};
  all.push_back({{{"rows", ranks}}, entries(rows_only, every), std::nullopt});
  all.push_back({{{"rows", ranks}}, entries(rows_only, {"front", "w2", "w4"}), std::nullopt});
  all.push_back({{{"rows", ranks}}, entries({unsharded, unsharded, "rows"}, every), std::nullopt});
  if (ranks % 2 == 0) {
    const std::int64_t half = ranks / 2;
    all.push_back({{{"rows", 2}, {"columns", half}},
                   entries({unsharded, "rows", "columns"}, every),
                   std::nullopt});
    all.push_back(
        {{{"data", 2}, {"rows", half}}, entries({"data", "rows", unsharded}, every), "data"});
    all.push_back({{{"a", 2}, {"b", half}},
                   entries({unsharded, {"b", "a"}, unsharded}, every),
                   std::nullopt});
    all.push_back({{{"a", 2}, {"b", half}},
                   entries({unsharded, {"a", "b"}, unsharded}, {"w1", "w4"}),
                   std::nullopt});
  }
  if (ranks == 8) {
    all.push_back({{{"data", 2}, {"rows", 2}, {"columns", 2}},
                   entries({"data", "rows", "columns"}, every),
                   "data"});
  }
  return all;
}

using Counts =
    std::map<std::pair<std::string, std::int64_t>, std::pair<std::int64_t, std::int64_t>>;

std::string text_of(const Counts& counts) {
  std::string text;
  for (const auto& [what, sent] : counts) {
    text += fmt::format("{} over {}: {} x, {} bytes; ", what.first, what.second, sent.first,
                        sent.second);
  }
  return text;
}

}  // namespace

TEST_CASE("what windows see trains on split images as on one rank") {
  const int ranks = Communicator::world().size();
  const Case subject{.name = "network", .sample = {7, 2}, .build = network()};
  const auto input = Input(subject.sample);
  const std::vector<Variable> names = make_graph({input}, {subject.build(input)}).variables;
  DeviceMesh single = alone();
  const LayerOutcome expected = run(subject, spread_over(single));
  for (const Setting& setting : settings(ranks)) {
    DeviceMesh mesh(setting.axes);
    INFO(meshwork::to_string(mesh.shape()) << ", " << test::to_string(setting.layouts));
    compare(run(subject, spread_over(mesh, setting.layouts, setting.batch_axis)), expected, names);
  }
}

TEST_CASE("what a step with windows sends is what was planned") {
  const Communicator world = Communicator::world();
  const std::unique_ptr<Device> device = make_device({});
  const std::unique_ptr<Transport> transport = make_transport("auto", world, &device->queues());
  for (const Setting& setting : settings(world.size())) {
    DeviceMesh mesh(setting.axes);
    INFO(meshwork::to_string(mesh.shape()) << ", " << test::to_string(setting.layouts));
    CountingTransport counting(*transport);
    const Plan plan = plan_of({7, 2}, network(), mesh.shape(), setting.layouts, 6,
                              setting.batch_axis.value_or(""));
    Engine engine(mesh, *device, counting, plan, 1, SGD().update_rule(), {});
    for (const std::int64_t batch : {6, 1}) {
      Step& step = engine.step({Mode::train, batch});
      for (std::size_t part = 0; part < step.fed_parts().size(); ++part) {
        const std::vector<float> block(
            static_cast<std::size_t>(size_of(step.fed_parts()[part].block)), 0.0f);
        step.feed(part, block.data());
      }
      counting.clear();
      step.run({0, 0.0f});
      Counts sent, planned;
      for (const Traffic& traffic : counting.traffic()) {
        sent[{std::string(traffic.collective), traffic.ranks}] = {traffic.operations,
                                                                  traffic.bytes};
      }
      const PlanReport report =
          report_plan(plan, Mode::train, batch, mesh.rank(), SGD().update_rule(), {});
      for (const CollectiveRecord& record : report.collectives) {
        auto& [operations, bytes] =
            planned[{std::string(record.collective), mesh.shape().size_over(record.axes)}];
        ++operations;
        bytes += record.bytes_sent;
      }
      CHECK(text_of(sent) == text_of(planned));
    }
  }
}

}  // namespace meshwork::windows_test

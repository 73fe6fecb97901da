// What is planned is what is done: collectives and memory of lowered steps.
//
// The numbers of single plans are worked out by hand, for rank 0 of meshes that need not be there.
// On the mesh that is there, a counting transport holds what every rank really sends against its
// plan.
#include "runtime/graph/lower.h"
#include "layers/regularizers/l1_l2.h"
#include "runtime/device/kernel_spec.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/device/kernels/precision.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "collectives/counting.h"
#include "collectives/joined_text.h"
#include "layers/activation.h"
#include "layers/add.h"
#include "layers/dense.h"
#include "layers/dropout.h"
#include "layers/multi_head_attention.h"
#include "layers/rescaling.h"
#include "layers/reshape.h"
#include "runtime/graph/layer.h"
#include "runtime/graph/lowering.h"
#include "runtime/shape/block_parts.h"
#include "runtime/train/engine/engine.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/metrics/categorical_accuracy.h"
#include "runtime/train/optimizers/adam.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/apart_device.h"
#include "tests/support/plans.h"

namespace meshwork::lower_test {

using namespace meshwork::test;

namespace {

// 12 -> 8 -> 4
Trained two_layers() {
  return {.build = [](const SymbolicTensor& x) {
    return Dense({.name = "d2", .units = 4})(
        Dense({.name = "d1", .units = 8, .activation = Activation::relu})(x));
  }};
}

struct Sent {
  std::string phase, kind, axes;
  std::int64_t bytes;
  bool operator==(const Sent&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Sent& sent) {
  return out << sent.phase << ' ' << sent.kind << " over " << sent.axes << ": " << sent.bytes;
}

// The collectives of a step on rank 0 of a mesh that need not be there.
std::vector<Sent> sent_in(const Trained& training, const std::vector<MeshAxis>& axes,
                          const LayoutEntries& entries, const std::string& batch_axis,
                          std::int64_t rows, Mode mode = Mode::train, CostModel costs = {}) {
  const MeshShape mesh = mesh_of(axes);
  const PlanReport report = report_plan(plan_of(training, mesh, entries, batch_axis, rows, costs),
                                        mode, rows, 0, training.optimizer.update_rule(), {});
  std::vector<Sent> sent;
  for (const CollectiveRecord& record : report.collectives) {
    sent.push_back({record.purpose.phase, std::string(record.name), names_of(record.axes, mesh),
                    record.bytes_sent});
  }
  return sent;
}

using Sents = std::vector<Sent>;

}  // namespace

TEST_CASE("data parallelism sends every gradient once, and the sums") {
  Trained training = two_layers();
  training.metrics = {SparseCategoricalAccuracy()};
  // 12*8 + 8 + 8*4 + 4 = 140 gradients of 4 bytes, 2 (n-1)/n of them: 1.5 for four ranks. Two sums
  // of 8 bytes.
  CHECK(sent_in(training, {{"data", 4}}, {}, "data", 8) ==
        Sents{{"backward", "all_reduce", "data", 840}, {"metrics", "all_reduce", "data", 24}});
  CHECK(sent_in(training, {{"data", 4}}, {}, "data", 8, Mode::evaluate) ==
        Sents{{"metrics", "all_reduce", "data", 24}});
  // The prediction, 8 rows of 4, whole on every rank: 3/4 of 128 bytes.
  CHECK(sent_in(training, {{"data", 4}}, {}, "data", 8, Mode::predict) ==
        Sents{{"forward", "all_gather", "data", 96}});
}

TEST_CASE("a column split before a row split is reduced once forward and once backward") {
  Trained training{.build = [](const SymbolicTensor& x) {
    auto y = Dense({.name = "d1", .units = 6})(x);
    y = Dense({.name = "d2", .units = 8, .activation = Activation::gelu})(y);
    return Dense({.name = "d3", .units = 4})(y);
  }};
  // Forward d3's output, 10 x 4 floats; backward the gradient of d1's output, 10 x 6; 2 (n-1)/n is
  // 1. Every gradient of a weight is whole where it is made.
  CHECK(sent_in(training, {{"model", 2}},
                {{"d2/kernel", {unsharded, "model"}},
                 {"d2/bias", {"model"}},
                 {"d3/kernel", {"model", unsharded}}},
                "", 10) ==
        Sents{{"forward", "all_reduce", "model", 160}, {"backward", "all_reduce", "model", 240}});
}

TEST_CASE("fully sharded weights are gathered for use and their gradients scattered") {
  // Half of each is sent, by two ranks: kernels of 96 and 32 floats, biases of 8 and 4. Backward
  // needs d2's kernel once more, and nothing else.
  CHECK(sent_in(two_layers(), {{"data", 2}},
                {{".*/kernel", {"data", unsharded}}, {".*/bias", {"data"}}}, "data",
                64) == Sents{{"forward", "all_gather", "data", 192},
                             {"forward", "all_gather", "data", 16},
                             {"forward", "all_gather", "data", 64},
                             {"forward", "all_gather", "data", 8},
                             {"backward", "all_gather", "data", 64},
                             {"backward", "reduce_scatter", "data", 64},
                             {"backward", "reduce_scatter", "data", 8},
                             {"backward", "reduce_scatter", "data", 192},
                             {"backward", "reduce_scatter", "data", 16},
                             {"metrics", "all_reduce", "data", 8}});
}

TEST_CASE("cross-entropy over split classes sends four numbers a row and no class") {
  const LayoutEntries classes{{"d2/kernel", {unsharded, "model"}},
                              {"d2/bias", {"model"}},
                              {"d2/output", {unsharded, "model"}}};
  // 6 rows: their maxima, then three sums each; backward the gradient of d1's output, 6 x 8.
  // Without latency, which makes it cheaper to gather rows as short as these.
  const CostModel bytes_alone{.latency_seconds = 0};
  Trained training = two_layers();
  training.build = [](const SymbolicTensor& x) {
    return Dense({.name = "d2", .units = 40})(Dense({.name = "d1", .units = 8})(x));
  };
  CHECK(sent_in(training, {{"model", 2}}, classes, "", 6, Mode::train, bytes_alone) ==
        Sents{{"forward", "all_reduce", "model", 24},
              {"forward", "all_reduce", "model", 72},
              {"backward", "all_reduce", "model", 192}});
}

TEST_CASE("clipping by norm sends one number a variable, over the axes that split any") {
  const LayoutEntries columns{{"d2/kernel", {unsharded, "model"}},
                              {"d2/bias", {"model"}},
                              {"d2/output", {unsharded, "model"}}};
  for (const bool global : {false, true}) {
    Trained training = two_layers();
    training.optimizer = global ? SGD({.global_clipnorm = 1}) : SGD({.clipnorm = 1});
    // Rows of four classes are gathered; then, four float64 squares.
    CHECK(sent_in(training, {{"model", 2}}, columns, "", 6) ==
          Sents{{"forward", "all_gather", "model", 48},
                {"backward", "all_reduce", "model", 192},
                {"update", "all_reduce", "model", 32}});
    // Whole on every rank, norms need nobody.
    CHECK(sent_in(training, {{"data", 2}}, {}, "data", 6) ==
          Sents{{"backward", "all_reduce", "data", 560}, {"metrics", "all_reduce", "data", 8}});
  }
  Trained training = two_layers();
  training.optimizer = SGD({.clipvalue = 1});
  CHECK(sent_in(training, {{"model", 2}}, columns, "", 6).size() == 2);
}

TEST_CASE("a penalty travels with the sums") {
  const Trained training{.build = [](const SymbolicTensor& x) {
    return Dense({.name = "d", .units = 4, .kernel_regularizer = L1L2({.l1 = 0.1f, .l2 = 0.1f})})(
        x);
  }};
  // Split weights: the loss is whole on both ranks, the penalty is not.
  CHECK(sent_in(training, {{"model", 2}},
                {{"d/kernel", {unsharded, "model"}},
                 {"d/bias", {"model"}},
                 {"d/output", {unsharded, unsharded}}},
                "", 6) ==
        Sents{{"forward", "all_gather", "model", 48}, {"metrics", "all_reduce", "model", 16}});
  // Whole weights: the loss is not, and the penalty is counted by one rank. 12*4 + 4 gradients.
  CHECK(sent_in(training, {{"data", 2}}, {}, "data", 6) ==
        Sents{{"backward", "all_reduce", "data", 208}, {"metrics", "all_reduce", "data", 16}});
}

TEST_CASE("one rank sends nothing") {
  for (const Mode mode : {Mode::train, Mode::evaluate, Mode::predict}) {
    CHECK(sent_in(two_layers(), {{"data", 1}}, {}, "data", 8, mode).empty());
  }
}

TEST_CASE("a bucket is reduced while backward goes on, and waited for before the update") {
  const MeshShape mesh({{"data", 2}}, 2);
  const Trained training = two_layers();
  const Plan plan = plan_of(training, mesh, {}, "data", 8);
  const ParameterForm form = parameter_form(plan, 0, {.bucket_bytes = 100});
  REQUIRE(form.buckets.size() > 1);
  LoweringRequest request;
  request.plan = &plan;
  request.rows = 8;
  request.update = &training.optimizer.update_rule();
  request.form = &form;
  ProgramBuilder builder;
  const auto planned = plan_collectives(mesh, 0);
  (void)lower(request, builder, *planned);
  std::size_t buckets = 0;
  for (const CollectiveRecord& record : planned->records()) {
    buckets += record.purpose.phase == "backward" ? 1 : 0;
  }
  CHECK(buckets == form.buckets.size());
}

// ---- on the mesh that is there ------------------------------------------------------------------

namespace {

// 5 x 3 -> 13 -> two branches -> 7 classes, with all that sends something of its own.
Trained network() {
  return {.sample = {5, 3},
          .build =
              [](const SymbolicTensor& x) {
                auto y = Reshape({.target_shape = {15}})(x);
                y = Dense({.name = "d1",
                           .units = 13,
                           .activation = Activation::gelu,
                           .kernel_regularizer = L1L2({.l1 = 1e-4f, .l2 = 1e-3f})})(y);
                y = Dropout({.rate = 0.3f})(y);
                const auto left =
                    Dense({.name = "left", .units = 13, .activation = Activation::relu})(y);
                const auto right = Dense({.name = "right", .units = 13, .use_bias = false})(y);
                y = Add()({left, right});
                return Dense({.name = "d2", .units = 7, .activation = Activation::softmax})(y);
              },
          .loss = SparseCategoricalCrossentropy(),
          .metrics = {SparseCategoricalAccuracy()},
          .optimizer = Adam({.global_clipnorm = 0.5})};
}

struct Setting {
  std::vector<MeshAxis> axes;
  LayoutEntries layouts;
  std::string batch_axis;
};

std::vector<Setting> settings(std::int64_t ranks) {
  std::vector<Setting> all;
  for (std::int64_t data = 1; data <= ranks; ++data) {
    if (ranks % data != 0) {
      continue;
    }
    const std::vector<MeshAxis> axes{{"data", data}, {"model", ranks / data}};
    const LayoutEntries columns_rows{{"d1/kernel", {unsharded, "model"}},
                                     {"d1/bias", {"model"}},
                                     {"left/kernel", {"model", unsharded}},
                                     {"right/kernel", {unsharded, "model"}},
                                     {"d2/output", {"data", unsharded}}};
    all.push_back({axes, {}, "data"});
    all.push_back({axes, {}, ""});
    all.push_back({axes, columns_rows, "data"});
    all.push_back({axes, columns_rows, "model"});
    all.push_back(
        {axes, {{"d2/kernel", {unsharded, "model"}}, {"d2/output", {"data", "model"}}}, "data"});
    all.push_back({axes, {{".*/kernel", {"data", "model"}}, {".*/bias", {"data"}}}, "data"});
    all.push_back({axes, {{".*/kernel", {{"model", "data"}, unsharded}}}, "data"});
    all.push_back({axes, {{"d1/output", {unsharded, {"data", "model"}}}}, "data"});
  }
  return all;
}

using Counts =
    std::map<std::pair<std::string, std::int64_t>, std::pair<std::int64_t, std::int64_t>>;

Counts counts_of(const std::vector<CollectiveRecord>& records, const MeshShape& mesh) {
  Counts counts;
  for (const CollectiveRecord& record : records) {
    auto& [operations, bytes] =
        counts[{std::string(record.collective), mesh.size_over(record.axes)}];
    ++operations;
    bytes += record.bytes_sent;
  }
  return counts;
}

Counts counts_of(const CountingTransport& transport) {
  Counts counts;
  for (const Traffic& traffic : transport.traffic()) {
    counts[{std::string(traffic.collective), traffic.ranks}] = {traffic.operations, traffic.bytes};
  }
  return counts;
}

std::string to_string(const Counts& counts) {
  std::string text;
  for (const auto& [what, sent] : counts) {
    text += fmt::format("{} over {}: {} x, {} bytes; ", what.first, what.second, sent.first,
                        sent.second);
  }
  return text;
}

}  // namespace

namespace {

// A device that adds up what is allocated, and the workspaces of the kernels that it compiles, as
// arenas count them. One that was joined with the next, and is gone, is not in the arena.
class WatchedDevice final : public Device {
 public:
  explicit WatchedDevice(Device& inner) : Device(inner.traits()), inner_(inner) {}
  std::int64_t workspaces = 0;
  std::int64_t allocated = 0;

  std::string description() const override { return inner_.description(); }
  Memory allocate(std::int64_t bytes) override {
    allocated += bytes;
    return inner_.allocate(bytes);
  }
  void copy_in(void* to, const void* from, std::int64_t bytes) override {
    inner_.copy_in(to, from, bytes);
  }
  void copy_out(void* to, const void* from, std::int64_t bytes) override {
    inner_.copy_out(to, from, bytes);
  }
  void synchronize() override { inner_.synchronize(); }
  DeviceQueues& queues() override { return inner_.queues(); }
  std::unique_ptr<Kernel> compile(const KernelSpec& spec) override {
    return std::make_unique<Watched>(inner_.compile(spec), workspaces);
  }

 private:
  class Watched final : public Kernel {
   public:
    Watched(std::unique_ptr<Kernel> kernel, std::int64_t& workspaces)
        : kernel_(std::move(kernel)), workspaces_(workspaces) {
      workspaces_ += bytes();
    }
    ~Watched() override { workspaces_ -= bytes(); }
    void run(void* const* operands) override { kernel_->run(operands); }
    std::int64_t workspace_bytes() const override { return kernel_->workspace_bytes(); }

   private:
    std::int64_t bytes() const { return (workspace_bytes() + 63) / 64 * 64; }
    std::unique_ptr<Kernel> kernel_;
    std::int64_t& workspaces_;
  };
  Device& inner_;
};

bool joins_blocks(const ParameterForm& form) {
  return std::any_of(form.groups.begin(), form.groups.end(),
                     [](const ParameterGroup& group) { return group.home == Home::joined; });
}

// An engine that counts what its steps send and what they take.
class WatchedEngine {
 public:
  WatchedEngine(DeviceMesh& mesh, WatchedDevice& device, Transport& transport, const Plan& plan,
                const UpdateRule& update)
      : mesh_(mesh),
        device_(device),
        counting_(transport),
        plan_(plan),
        update_(update),
        engine_(mesh, device, counting_, plan, 1, update) {}

  [[nodiscard]] std::int64_t trainable_bytes() {
    return engine_.parameters().form().trainable_count * 4;
  }

  /// Compares two runs of a step with its report, which it returns.
  PlanReport check(const Engine::StepKey& key) {
    const std::int64_t before = device_.workspaces;
    Step& step = engine_.step(key);
    for (std::size_t part = 0; part < step.fed_parts().size(); ++part) {
      const std::vector<float> block(
          static_cast<std::size_t>(size_of(step.fed_parts()[part].block)), 0.0f);
      step.feed(part, block.data());
    }
    counting_.clear();
    step.run({0, 0.0f});
    step.run({1, 0.0f});
    PlanReport report = report_plan(plan_, key.mode, key.rows, mesh_.rank(), update_, {},
                                    Precision::float32, {}, key.walk);
    std::vector<CollectiveRecord> twice = report.collectives;
    twice.insert(twice.end(), report.collectives.begin(), report.collectives.end());
    CHECK(to_string(counts_of(counting_)) == to_string(counts_of(twice, mesh_.shape())));
    CHECK(to_string(counts_of(step.collectives(), mesh_.shape())) ==
          to_string(counts_of(report.collectives, mesh_.shape())));
    // Workspaces, which only compiling tells, come on top.
    const ArenaSummary& arena = step.program().arena();
    const std::int64_t workspaces = device_.workspaces - before;
    CHECK(arena.bytes <= report.arena_bytes + workspaces);
    if (joins_blocks(engine_.parameters().form())) {
      // What is gathered, and its gradient, stand with the parameters.
      CHECK(arena.bytes_if_unshared < report.arena_bytes_if_unshared + workspaces);
    } else {
      CHECK(arena.bytes_if_unshared == report.arena_bytes_if_unshared + workspaces);
      // With them, first fit may find better places for the rest.
      if (workspaces == 0) CHECK(arena.bytes == report.arena_bytes);
    }
    return report;
  }

 private:
  DeviceMesh& mesh_;
  WatchedDevice& device_;
  CountingTransport counting_;
  Plan plan_;
  UpdateRule update_;
  Engine engine_;
};

}  // namespace

TEST_CASE("what a step sends, and the memory that it takes, are what was planned") {
  const Communicator world = Communicator::world();
  const std::unique_ptr<Device> inner = make_device({});
  WatchedDevice device(*inner);
  const std::unique_ptr<Transport> transport = make_transport("auto", world, &device.queues());
  const Trained training = network();
  for (const Setting& setting : settings(world.size())) {
    DeviceMesh mesh(setting.axes);
    INFO(meshwork::to_string(mesh.shape())
         << ", " << test::to_string(setting.layouts) << ", batches over " << setting.batch_axis);
    const Plan plan = plan_of(training, mesh.shape(), setting.layouts, setting.batch_axis, 21);
    WatchedEngine engine(mesh, device, *transport, plan, training.optimizer.update_rule());
    // Batches of another length than the plan's, and shorter than the mesh, too.
    for (const std::int64_t rows : {21, 8, 3}) {
      for (const Mode mode : {Mode::train, Mode::evaluate, Mode::predict}) {
        INFO(name_of(mode) << " with " << rows << " rows");
        const PlanReport report = engine.check({mode, rows});
        const std::int64_t trainable = engine.trainable_bytes();
        CHECK(report.parameter_bytes == trainable);
        CHECK(report.gradient_bytes == (mode == Mode::train ? trainable : 0));
        CHECK(report.slot_bytes == (mode == Mode::train ? 2 * trainable : 0));
      }
    }
  }
}

TEST_CASE("what a pipeline sends, and the memory that its schedules take, are what was planned") {
  const Communicator world = Communicator::world();
  const std::unique_ptr<Device> inner = make_device({});
  WatchedDevice device(*inner);
  const std::unique_ptr<Transport> transport = make_transport("auto", world, &device.queues());
  const Trained deep{.build = [](SymbolicTensor x) {
    for (int layer = 0; layer < 16; ++layer) {
      x = Dense({.name = fmt::format("d{}", layer), .units = 8, .activation = Activation::tanh})(x);
    }
    return x;
  }};
  DeviceMesh mesh({{"stage", world.size()}, {"data", 1}});
  for (const std::int64_t chunks : {1, 2}) {
    PlaceMap places(mesh.shape());
    places.stage_over("stage", chunks);
    for (int layer = 0; layer < 16; ++layer) {
      places.insert(fmt::format("d{}", layer), {{"stage", layer}});
    }
    TrainedBlueprint of = blueprint_of(deep, mesh.shape(), {}, "data");
    of.blueprint.place(places);
    of.blueprint.draw(of.data, 21);
    const Plan& plan = of.blueprint.planned->plan;
    for (const PipelineSchedule& schedule :
         {one_forward_one_backward(), gpipe(), zero_bubble(), in_turn()}) {
      if (chunks > 1 && schedule == zero_bubble()) continue;
      WatchedEngine engine(mesh, device, *transport, plan, deep.optimizer.update_rule());
      for (const std::int64_t rows : {21, 3}) {  // of five micro-batches, and of three
        INFO(schedule.name << ", " << chunks << " stages at a coordinate, " << rows << " rows");
        (void)engine.check({.mode = Mode::train,
                            .rows = rows,
                            .walk = {.micro_batches = 5, .schedule = schedule}});
      }
      (void)engine.check({.mode = Mode::evaluate, .rows = 21});
    }
  }
}

TEST_CASE("the memory that generation keeps is what was planned") {
  const Communicator world = Communicator::world();
  const std::unique_ptr<Device> inner = make_device({});
  WatchedDevice device(*inner);
  const std::unique_ptr<Transport> transport = make_transport("auto", world, &device.queues());
  const Trained training{
      .sample = {7, 4},
      .build =
          [](const SymbolicTensor& x) {
            return MultiHeadAttention(
                {.name = "attention", .num_heads = 3, .key_dim = 2, .use_causal_mask = true})(x);
          },
      .loss = MeanSquaredError()};
  const LayoutEntries heads{
      {"attention/(query|key|value)/kernel", {unsharded, "model", unsharded}}};
  for (const MeshShape& shape : {MeshShape({{"data", 1}, {"model", world.size()}}, world.size()),
                                 MeshShape({{"data", world.size()}, {"model", 1}}, world.size())}) {
    DeviceMesh mesh(shape.axes());
    const Plan plan = plan_of(training, mesh.shape(), heads, "data", 5);
    Engine engine(mesh, device, *transport, plan, 1, training.optimizer.update_rule());
    for (const std::int64_t rows : {5, 1}) {
      for (const std::int64_t positions : {1, 3}) {
        INFO(meshwork::to_string(shape) << ", " << rows << " rows, " << positions << " positions");
        const Engine::StepKey key{.mode = Mode::predict, .rows = rows, .positions = positions};
        (void)engine.step(key);  // for which the arena grows
        engine.forget_steps();
        device.allocated = 0;
        std::int64_t fed = 0;
        for (const FedPart& part : engine.step(key).fed_parts()) fed += 4 * size_of(part.block);
        const PlanReport report = report_plan(plan, Mode::predict, rows, mesh.rank(), {}, {});
        CHECK(report.kept_bytes == device.allocated - fed);
      }
    }
  }
}

TEST_CASE("narrow copies of operands and relu masks are in the memory that was planned") {
  const auto inner = make_apart_device({});
  WatchedDevice device(*inner);
  const Trained training = two_layers();
  DeviceMesh mesh({{"data", -1}});
  const auto transport = make_transport("auto", mesh.all(), &device.queues());
  const Plan plan = plan_of(training, mesh.shape(), {}, "data", 8);
  const auto report = [&](const DeviceTraits& traits) {
    return report_plan(plan, Mode::train, 8, mesh.rank(), training.optimizer.update_rule(), {},
                       Precision::bfloat16, traits);
  };
  const auto planned = [&](const DeviceTraits& traits) {
    return report(traits).arena_bytes_if_unshared;
  };
  Engine engine(mesh, device, *transport, plan, 1, training.optimizer.update_rule(), nullptr,
                nullptr, Precision::bfloat16);
  const Step& step = engine.step({Mode::train, 8});
  const std::int64_t unshared = step.program().arena().bytes_if_unshared - device.workspaces;
  CHECK(planned(device.traits()) == unshared);
  // Two bytes each: forward and backward, the input and the first kernel, the hidden layer's
  // output, and the gradients of both outputs; places are multiples of 64 bytes. Others narrow
  // nothing.
  CHECK(planned({}) < unshared);
  // Kept beside the values, for all variables of the group.
  CHECK(report(device.traits()).narrow_copy_bytes == (12 * 8 + 8 + 8 * 4 + 4) * 2);
  CHECK(report({}).narrow_copy_bytes == 0);
  CHECK(planned(traits_of_device("cuda")) == unshared);
  const DeviceTraits host = make_device({.kind = "cpu"})->traits();
  CHECK(planned(traits_of_device("cpu")) == planned(host));
}

TEST_CASE("factors of products in bfloat16 are narrowed once for all products of an operation") {
  const auto narrowed_in = [](Device& device, const LayoutEntries& entries, Mode mode,
                              Precision precision) {
    const Trained training = two_layers();
    DeviceMesh mesh({{"data", -1}});
    const auto transport = make_transport("auto", mesh.all(), &device.queues());
    Engine engine(mesh, device, *transport, plan_of(training, mesh.shape(), entries, "data", 8), 1,
                  training.optimizer.update_rule(), nullptr, nullptr, precision);
    const std::vector<std::string>& labels = engine.step({mode, 8}).program().labels();
    return std::count_if(labels.begin(), labels.end(), [](const std::string& label) {
      return label.find(": narrow ") != label.npos;
    });
  };
  const auto apart = make_apart_device({});
  // Forward takes an input and a kernel in each layer; that of the second has a narrow copy, that
  // of the first stands behind 36 floats, where none can be read. Backward takes these again, and
  // the gradient of each layer's output, that of the second for both of its gradients.
  CHECK(narrowed_in(*apart, {}, Mode::evaluate, Precision::bfloat16) == 3);
  CHECK(narrowed_in(*apart, {}, Mode::train, Precision::bfloat16) == 5);
  CHECK(narrowed_in(*apart, {}, Mode::train, Precision::float32) == 0);
  // A kernel that is gathered again for backward is another one, lest a rank keeps more of it than
  // a layer needs.
  if (Communicator::world().size() == 1) return;
  const LayoutEntries sharded{{".*/kernel", {"data", unsharded}}};
  CHECK(narrowed_in(*apart, sharded, Mode::train, Precision::bfloat16) == 7);
}

TEST_CASE("an operation that writes a variable which is trained is refused") {
  class Counting final : public Operation {
   public:
    std::string kind() const override { return "counting"; }
    Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
    Rule rule(std::span<const Shape>) const override { return {{"bc", "c"}, "bc"}; }
    void forward(Lowering& lowering) const override {
      lowering.output_is_input(0);
      (void)lowering.updated(1);
    }
    void backward(Lowering& lowering) const override {
      lowering.input_gradient_is_output_gradient(0);
    }
  };
  class Counter final : public Layer {
   public:
    explicit Counter(bool trainable) : Layer("counter"), trainable_(trainable) {}
    std::string class_name() const override { return "Counter"; }
    TensorId build(LayerBuilder& builder, std::span<const TensorId> inputs) const override {
      const auto count = builder.variable("count", {.shape = {12}, .trainable = trainable_});
      return builder.apply(std::make_unique<Counting>(), {inputs[0], count});
    }

   private:
    bool trainable_;
  };
  const auto lowered = [](bool trainable) {
    return sent_in({.build =
                        [trainable](const SymbolicTensor& x) {
                          return SharedLayer(std::make_shared<Counter>(trainable))(x);
                        }},
                   {{"data", 2}}, {}, "data", 8, Mode::evaluate);
  };
  CHECK_NOTHROW(lowered(false));
  CHECK_THROWS_WITH(
      lowered(true),
      "counter/counting writes counter/count: an operation can only write variables that are not "
      "trained");
}

TEST_CASE("an operation that gives no output or no gradient, or throws, is named") {
  using Emit = std::function<void(Lowering&)>;
  // Of which forward and backward are something else each time.
  class Odd final : public Operation {
   public:
    Odd(Emit forward, Emit backward)
        : forward_(std::move(forward)), backward_(std::move(backward)) {}
    std::string kind() const override { return "odd"; }
    Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
    Rule rule(std::span<const Shape>) const override {
      if (!forward_) throw std::out_of_range("no letters");
      return {{"bc"}, "bc"};
    }
    void forward(Lowering& lowering) const override { forward_(lowering); }
    void backward(Lowering& lowering) const override { backward_(lowering); }

   private:
    Emit forward_, backward_;
  };
  class OddLayer final : public Layer {
   public:
    OddLayer(Emit forward, Emit backward)
        : Layer("d1"), forward_(std::move(forward)), backward_(std::move(backward)) {}
    std::string class_name() const override { return "Odd"; }
    TensorId build(LayerBuilder& builder, std::span<const TensorId> inputs) const override {
      return builder.apply(std::make_unique<Odd>(forward_, backward_), {inputs[0]});
    }

   private:
    Emit forward_, backward_;
  };
  const auto lowered = [](const Emit& forward, Mode mode, const Emit& backward = {}) {
    return sent_in({.build =
                        [&](const SymbolicTensor& x) {
                          const auto y = Dense({.name = "d0", .units = 12})(x);
                          return SharedLayer(std::make_shared<OddLayer>(forward, backward))(y);
                        }},
                   {{"data", 2}}, {}, "data", 8, mode);
  };
  CHECK_THROWS_WITH(lowered([](Lowering&) {}, Mode::evaluate),
                    "d1/odd: forward of the operation \"odd\" neither writes its output nor says "
                    "which input it is");
  CHECK_THROWS_WITH(lowered(nullptr, Mode::evaluate), "d1/odd: rule throws: no letters");
  CHECK_THROWS_WITH(lowered([](Lowering&) { throw std::out_of_range("17"); }, Mode::evaluate),
                    "d1/odd: forward throws: 17");
  CHECK_THROWS_WITH(lowered([](Lowering&) { throw 17; }, Mode::evaluate),
                    "d1/odd: forward throws an exception of unknown type");
  const auto same = [](Lowering& lowering) { lowering.output_is_input(0); };
  CHECK_NOTHROW(lowered(same, Mode::evaluate));
  CHECK_THROWS_WITH(lowered(same, Mode::train,
                            [](Lowering& lowering) {
                              lowering.input_gradient_is_output_gradient(0);
                              throw std::runtime_error("no way back");
                            }),
                    "d1/odd: backward throws: no way back");
  CHECK_THROWS_WITH(lowered(same, Mode::train, [](Lowering&) {}),
                    Catch::Contains("d1/odd: backward gave no gradient of input 0"));
}

namespace {

/// The labels of what a step runs, of 10 rows over all ranks of `mesh`.
std::vector<std::string> labels_of(const Trained& training, DeviceMesh& mesh,
                                   const LayoutEntries& layouts, const std::string& batch_axis,
                                   Mode mode = Mode::train,
                                   const std::map<TensorId, ElementType>& fed = {}) {
  const std::unique_ptr<Device> device = make_device({});
  const std::unique_ptr<Transport> transport =
      make_transport("auto", mesh.all(), &device->queues());
  Engine engine(mesh, *device, *transport, plan_of(training, mesh.shape(), layouts, batch_axis, 10),
                1, training.optimizer.update_rule());
  return engine.step({mode, 10, fed}).program().labels();
}
/// The same on one rank.
std::vector<std::string> labels_of(const Trained& training, Mode mode,
                                   const std::map<TensorId, ElementType>& fed = {}) {
  DeviceMesh mesh = alone();
  return labels_of(training, mesh, {}, "", mode, fed);
}

}  // namespace

TEST_CASE("a value's gradient is reduced beside the gradients of weights, which come behind it") {
  const Communicator world = Communicator::world();
  if (world.size() == 1) return;
  Trained training{.build = [](const SymbolicTensor& x) {
    auto y = Dense({.name = "d1", .units = 6})(x);
    y = Dense({.name = "d2", .units = 8, .activation = Activation::gelu})(y);
    return Dense({.name = "d3", .units = 4})(y);
  }};
  const LayoutEntries layouts{{"d2/kernel", {unsharded, "model"}},
                              {"d2/bias", {"model"}},
                              {"d3/kernel", {"model", unsharded}}};
  DeviceMesh mesh({{"model", world.size()}});
  const std::vector<std::string> labels = labels_of(training, mesh, layouts, "");
  const auto index_of = [&](const std::string& begin, const std::string& contained) {
    const auto found = std::find_if(labels.begin(), labels.end(), [&](const std::string& label) {
      return label.starts_with(begin) && label.find(contained) != std::string::npos;
    });
    return found - labels.begin();
  };
  const auto start = index_of("start d1", "gradient");
  const auto wait = index_of("wait for d1", "gradient");
  INFO(Catch::StringMaker<std::vector<std::string>>::convert(labels));
  REQUIRE(wait < std::ssize(labels));
  // In front the product that gives it, between them that of d2's kernel, behind d1's.
  CHECK(start == index_of("d2", "matmul nt") + 1);
  CHECK(index_of("d2", "matmul tn") == start + 1);
  CHECK(wait > start + 1);
  CHECK(index_of("d1", "matmul tn") > wait);
}

TEST_CASE("a variable is gathered while the operation before computes") {
  const Communicator world = Communicator::world();
  if (world.size() == 1) return;
  const Trained training = {.build = [](const SymbolicTensor& x) {
    auto y = Dense({.name = "d1", .units = 6, .use_bias = false})(x);
    y = Dense({.name = "d2", .units = 8, .use_bias = false})(y);
    return Dense({.name = "d3", .units = 4, .use_bias = false})(y);
  }};
  DeviceMesh mesh({{"data", world.size()}});
  const std::vector<std::string> labels =
      labels_of(training, mesh, {{".*/kernel", {"data", unsharded}}}, "data");
  INFO(Catch::StringMaker<std::vector<std::string>>::convert(labels));
  // Those of what gathers, and the beginnings of those of what multiplies.
  std::vector<std::string> found;
  for (const std::string& label : labels) {
    if (label.ends_with("/kernel")) found.push_back(label);
    const auto shape = label.find_first_of("0123456789", label.find("matmul"));
    if (shape != std::string::npos) found.push_back(label.substr(0, shape - 1));
  }
  // Backward of d1 reads no kernel.
  const std::string expected =
      "start d1/kernel, wait for d1/kernel, start d2/kernel, d1/product: matmul, "
      "wait for d2/kernel, start d3/kernel, d2/product: matmul, "
      "wait for d3/kernel, d3/product: matmul, "
      "start d3/kernel, wait for d3/kernel, start d2/kernel, d3/product: matmul nt, "
      "d3/product: matmul tn, wait for d2/kernel, d2/product: matmul nt, d2/product: matmul tn, "
      "d1/product: matmul tn";
  CHECK(joined_text(found, ", ") == expected);
}

namespace {

std::int64_t count_of(const std::vector<std::string>& labels, const std::string& contained) {
  return std::count_if(labels.begin(), labels.end(), [&](const std::string& label) {
    return label.find(contained) != std::string::npos;
  });
}

}  // namespace

TEST_CASE("a loss over whole classes, its gradient and the metrics are one kernel") {
  Trained training = two_layers();
  training.metrics = {SparseCategoricalAccuracy(), SparseTopKCategoricalAccuracy({.k = 2})};
  const auto all = labels_of(training, Mode::train);
  CHECK(count_of(all, "loss/") == 1);
  CHECK(count_of(all, "metrics/") == 1);
  CHECK(count_of(all, "class comparison 10x4 loss gradient rank") == 1);
  // Nobody asks for a gradient.
  const auto evaluated = labels_of(training, Mode::evaluate);
  CHECK(count_of(evaluated, "metrics/") == 1);
  CHECK(count_of(evaluated, "class comparison 10x4 loss rank") == 1);
}

TEST_CASE("dropout behind a relu is part of it, and its gradient draws nothing") {
  Trained training{.build = [](const SymbolicTensor& x) {
    auto y = Dense({.name = "d1", .units = 8, .activation = Activation::relu})(x);
    y = Dropout({.name = "drop", .rate = 0.4})(y);
    y = Dense({.name = "d2", .units = 8, .activation = Activation::tanh})(y);
    y = Dropout({.name = "again", .rate = 0.4})(y);
    return Dense({.name = "d3", .units = 4})(y);
  }};
  const auto labels = labels_of(training, Mode::train);
  INFO(Catch::StringMaker<std::vector<std::string>>::convert(labels));
  CHECK(count_of(labels, "d1/product+bias+relu+drop/dropout: dropout") == 1);
  CHECK(count_of(labels, "d1/product+bias+relu+drop/dropout: relu gradient 80 divided") == 1);
  // The value of tanh can be 0 where its slope is not.
  CHECK(count_of(labels, "again/dropout: dropout") == 2);
  CHECK(count_of(labels_of(training, Mode::evaluate), ": dropout") == 0);
}

TEST_CASE("what is fed as bytes is scaled where it is converted, if nobody else reads it") {
  Trained training{.build = [](const SymbolicTensor& x) {
    return Dense({.name = "d1", .units = 4})(Rescaling({.scale = 0.5, .offset = 1})(x));
  }};
  const std::map<TensorId, ElementType> bytes{{0, ElementType::uint8}};
  const auto labels = labels_of(training, Mode::train, bytes);
  INFO(Catch::StringMaker<std::vector<std::string>>::convert(labels));
  CHECK(count_of(labels, "convert 120 from uint8 scaled") == 1);
  CHECK(count_of(labels, "affine") == 0);
  CHECK(count_of(labels_of(training, Mode::predict, bytes), "affine") == 0);
  CHECK(count_of(labels_of(training, Mode::train), "affine") == 1);

  training.build = [](const SymbolicTensor& x) {
    return Dense({.name = "d1", .units = 4})(
        Add()({Rescaling({.name = "a", .scale = 0.5})(x), Rescaling({.name = "b"})(x)}));
  };
  const auto twice = labels_of(training, Mode::train, bytes);
  CHECK(count_of(twice, "convert 120 from uint8 scaled") == 0);
  CHECK(count_of(twice, "affine") == 2);
}

}  // namespace meshwork::lower_test

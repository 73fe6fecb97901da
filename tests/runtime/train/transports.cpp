// Training by every transport. By shared memory gradients stand where all ranks of a node see them,
// in a place of its own on each rank, and are reduced there; by MPI they are this rank's alone.
#include "collectives/transport.h"
#include "layers/regularizers/l1_l2.h"
#include "runtime/device/kernel_spec.h"
#include "runtime/device/kernels/adam.h"

#include <chrono>
#include <cstdlib>
#include <thread>

#include "layers/dense.h"
#include "layers/flatten.h"
#include "runtime/data/synthetic.h"
#include "runtime/train/loop/stop_request.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/model.h"
#include "runtime/train/optimizers/adam.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/added_device.h"
#include "tests/support/cpu_behind.h"
#include "tests/support/one_rank.h"

namespace meshwork::transports_test {

namespace {

/// A CPU on which odd ranks take their time for every update.
class LateDevice final : public test::CpuBehind {
 public:
  explicit LateDevice(const DeviceOptions& options)
      : CpuBehind({.kind = "late"}, options), late_(options.rank_on_node % 2 == 1) {}

  [[nodiscard]] std::unique_ptr<Kernel> compile(const KernelSpec& spec) override {
    std::unique_ptr<Kernel> kernel = CpuBehind::compile(spec);
    if (!late_ || !spec.get_if<AdamSpec>()) return kernel;
    return test::within(std::move(kernel), [](const auto& run) {
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
      run();
    });
  }

 private:
  bool late_;
};

/// The weights after twelve steps on batches of 50 and a remainder of 30.
std::vector<std::vector<float>> trained(DeviceMesh& mesh, const test::LayoutEntries& layouts,
                                        const std::string& collectives) {
  const auto data = std::make_shared<SyntheticSource>(
      130,
      std::vector<SyntheticField>{
          {"x", {70}, ElementType::float32, FieldRole::feature, SyntheticKind::uniform, -1, 1},
          {"y", {5}, ElementType::float32, FieldRole::target, SyntheticKind::uniform, -1, 1}},
      11);
  const auto input = Input({70});
  auto x = Dense({.name = "d1", .units = 45, .activation = Activation::relu})(input);
  x = Dense({.name = "d2",
             .units = 60,
             .activation = Activation::tanh,
             .kernel_regularizer = L1L2({.l1 = 1e-4f, .l2 = 1e-3f})})(x);
  x = Dense({.name = "d3", .units = 5})(x);
  Model model(input, x, test::spread_over(mesh, layouts), {.seed = 3, .collectives = collectives});
  model.compile(
      {.loss = MeanSquaredError(), .optimizer = Adam({.learning_rate = 0.01, .clipvalue = 0.05})});
  (void)model.fit(data, {.epochs = 4, .batch_size = 50, .verbose = Verbosity::silent});
  return test::variables_of(model);
}

/// The weights after three steps of a network whose gradients are more than one bucket, so that one
/// is under way while others are computed; what is sent is held against the plan.
std::vector<std::vector<float>> trained_in_buckets(DeviceMesh& mesh, const std::string& collectives,
                                                   const char* progress) {
  CHECK(::setenv("MESHWORK_PROGRESS", progress, 1) == 0);
  const auto data = std::make_shared<SyntheticSource>(
      24,
      std::vector<SyntheticField>{
          {"x", {20}, ElementType::float32, FieldRole::feature, SyntheticKind::uniform, -1, 1},
          {"y", {5}, ElementType::float32, FieldRole::target, SyntheticKind::uniform, -1, 1}},
      11);
  const auto input = Input({20});
  auto x = Dense({.name = "d1", .units = 1030, .activation = Activation::relu})(input);
  x = Dense({.name = "d2", .units = 1030, .activation = Activation::relu})(x);
  x = Dense({.name = "d3", .units = 1030, .activation = Activation::relu})(x);
  x = Dense({.name = "d4", .units = 5})(x);
  Model model(input, x, DataParallel(mesh),
              {.seed = 3, .collectives = collectives, .check_plan = true});
  model.compile({.loss = MeanSquaredError(), .optimizer = SGD({.learning_rate = 0.01})});
  (void)model.fit(data, {.epochs = 1, .batch_size = 8, .verbose = Verbosity::silent});
  CHECK(::unsetenv("MESHWORK_PROGRESS") == 0);
  return test::variables_of(model);
}

/// A network that is split by places in its middle and whole at its end: gradients are reduced over
/// the ranks, and no collective behind the update makes them meet.
const test::LayoutEntries by_places{{"d1/output", {unsharded, "ranks", unsharded}}};
/// Weights that are read where all ranks have them, and written there by one.
const test::LayoutEntries by_rows{{".*/kernel", {"ranks", unsharded}}};

/// The weights after ten steps.
std::vector<std::vector<float>> trained_spread(const std::string& device,
                                               const test::LayoutEntries& layouts) {
  DeviceMesh mesh({{"ranks", -1}});
  const auto data = std::make_shared<SyntheticSource>(
      200,
      std::vector<SyntheticField>{
          {"x", {8, 30}, ElementType::float32, FieldRole::feature, SyntheticKind::uniform, -1, 1},
          {"y", {5}, ElementType::float32, FieldRole::target, SyntheticKind::uniform, -1, 1}},
      11);
  const auto input = Input({8, 30});
  const auto x = Dense({.name = "d1", .units = 40, .activation = Activation::tanh})(input);
  const auto y = Dense({.name = "d2", .units = 5})(Flatten()(x));
  Model model(input, y, test::spread_over(mesh, layouts, layouts == by_rows ? "ranks" : ""),
              {.seed = 3, .device = device, .collectives = "shared"});
  model.compile({.loss = MeanSquaredError(), .optimizer = Adam({.learning_rate = 0.1})});
  (void)model.fit(data, {.epochs = 5, .batch_size = 100, .verbose = Verbosity::silent});
  return test::variables_of(model);
}

}  // namespace

TEST_CASE("a run ends alike by every transport, and bit for bit alike by one of them again") {
  const Communicator world = Communicator::world();
  std::vector<MeshAxis> axes{{"data", -1}};
  test::LayoutEntries layouts;
  switch (GENERATE(0, 1, 2)) {
    case 0:
      break;
    case 1:  // gradients in some buckets over one axis and in some over both
      if (world.size() % 2 != 0) return;
      axes.push_back({"model", 2});
      layouts = {{"d1/kernel", {unsharded, "model"}}, {"d2/kernel", {"model", unsharded}}};
      break;
    default:  // blocks of different lengths, so that gradients stand elsewhere on each rank
      layouts = {{"d1/kernel", {unsharded, "data"}}, {"d3/kernel", {"data", unsharded}}};
  }
  DeviceMesh mesh(axes);
  const auto by_mpi = trained(mesh, layouts, "mpi");
  const auto by_memory = trained(mesh, layouts, "shared");
  CHECK(by_memory == trained(mesh, layouts, "shared"));
  CHECK(by_memory == trained(mesh, layouts, "auto"));
  // Two ranks count as a node.
  CHECK(::setenv("MESHWORK_RANKS_A_NODE", "2", 1) == 0);
  const auto on_nodes = trained(mesh, layouts, "hierarchical");
  CHECK(on_nodes == trained(mesh, layouts, "hierarchical"));
  CHECK((world.size() <= 2 || on_nodes == trained(mesh, layouts, "auto")));
  CHECK(::unsetenv("MESHWORK_RANKS_A_NODE") == 0);
  for (std::size_t v = 0; v < by_mpi.size(); ++v) {
    // Sums of 130 terms in another order, twelve updates: as in mesh_equality.cpp.
    CHECK(test::difference(by_memory[v], by_mpi[v], 2e-5) == "");
    CHECK(test::difference(on_nodes[v], by_mpi[v], 2e-5) == "");
  }
}

TEST_CASE("a run ends bit for bit alike whoever brings its gradients on between nodes") {
  DeviceMesh mesh({{"data", -1}});
  const auto [collectives, ranks] =
      GENERATE(table<std::string, const char*>({{"hierarchical", "2"}, {"mpi", "1"}}));
  INFO(collectives);
  CHECK(::setenv("MESHWORK_RANKS_A_NODE", ranks, 1) == 0);
  const auto waited_for = trained_in_buckets(mesh, collectives, "none");
  CHECK(waited_for == trained_in_buckets(mesh, collectives, "polls"));
  CHECK(waited_for == trained_in_buckets(mesh, collectives, "thread"));
  CHECK(::unsetenv("MESHWORK_RANKS_A_NODE") == 0);
}

TEST_CASE("nobody goes on with variables of which another rank has not updated its part") {
  const test::AddedDevice late({.kind = "late"}, [](const DeviceOptions& options) {
    return std::make_unique<LateDevice>(options);
  });
  for (const test::LayoutEntries& layouts : {by_places, by_rows}) {
    CHECK(trained_spread("late", layouts) == trained_spread("cpu", layouts));
  }
}

TEST_CASE("ranks whose optimizers differ are told so before they make memory together") {
  const Communicator world = Communicator::world();
  if (world.size() == 1) return;
  DeviceMesh mesh({{"data", -1}});
  const auto input = Input({3});
  Model model(input, Dense({.name = "d1", .units = 2})(input), DataParallel(mesh));
  model.compile(
      {.loss = MeanSquaredError(), .optimizer = Adam({.beta_1 = world.rank() == 1 ? 0.5 : 0.9})});
  const std::vector<float> numbers(static_cast<std::size_t>(world.size()) * 3, 1.0f);
  CHECK_THROWS_WITH(
      model.train_step({.rows = world.size(),
                        .inputs = {numbers},
                        .targets = {std::span(numbers).first(numbers.size() / 3 * 2)}}),
      Catch::Contains("the optimizer's options: beta_1: rank 0 has 0.9, rank 1 has "
                      "0.5"));
}

TEST_CASE("ranks whose models differ in an option are told so before they make transports") {
  const Communicator world = Communicator::world();
  if (world.size() == 1) return;
  DeviceMesh mesh({{"data", -1}});
  const auto input = Input({3});
  const auto output = Dense({.name = "d1", .units = 2})(input);
  const bool odd = world.rank() == 1;
  CHECK_THROWS_WITH(
      Model(input, output, DataParallel(mesh), {.collectives = odd ? "mpi" : "shared"}),
      Catch::Contains("the model's options: collectives: rank 0 has shared, rank 1 has mpi"));
  CHECK_THROWS_WITH(Model(input, output, DataParallel(mesh),
                          {.precision = odd ? Precision::bfloat16 : Precision::float32}),
                    Catch::Contains("precision: rank 0 has float32, rank 1 has bfloat16"));
}

TEST_CASE("ranks that fit or evaluate differently are told so before the first step") {
  const Communicator world = Communicator::world();
  if (world.size() == 1) return;
  const bool odd = world.rank() == 1;
  DeviceMesh mesh({{"data", -1}});
  const auto input = Input({3});
  Model model(input, Dense({.name = "d1", .units = 2})(input), DataParallel(mesh));
  model.compile({.loss = MeanSquaredError(), .optimizer = SGD()});
  const auto samples = [](std::int64_t rows) {
    return std::make_shared<SyntheticSource>(
        rows,
        std::vector<SyntheticField>{
            {"x", {3}, ElementType::float32, FieldRole::feature, SyntheticKind::uniform, -1, 1},
            {"y", {2}, ElementType::float32, FieldRole::target, SyntheticKind::uniform, -1, 1}},
        11);
  };
  // As many steps, of which the last is not of the same samples.
  const std::int64_t rows = odd ? 13 : 16;
  const StopRequest request;
  const StopRequest* const stop_request = odd ? nullptr : &request;
  const auto fit_fails = [&](const std::shared_ptr<const Source>& data, const FitOptions& options,
                             const std::string& difference) {
    CHECK_THROWS_WITH(model.fit(data, options),
                      Catch::Contains("what fit is given: " + difference));
  };
  fit_fails(samples(8), {.batch_size = 8, .profile = odd},
            "profile: rank 0 has false, rank 1 has true");
  fit_fails(samples(rows), {.batch_size = 8}, "samples: rank 0 has 16, rank 1 has 13");
  fit_fails(samples(8), {.batch_size = 8, .validation = samples(rows)},
            "validation: rank 0 has 16, rank 1 has 13");
  fit_fails(samples(8),
            {.batch_size = 8, .checkpoint = {.directory = "c", .every_steps = odd ? 2 : 3}},
            "checkpoint.every_steps: rank 0 has 3, rank 1 has 2");
  fit_fails(samples(8),
            {.batch_size = 8,
             .checkpoint = {.directory = "c", .resume = odd ? Resume::automatic : Resume::never}},
            "checkpoint.resume: rank 0 has never, rank 1 has auto");
  fit_fails(samples(8), {.batch_size = 8, .stop_request = stop_request},
            "stop_request: rank 0 has true, rank 1 has false");
  CHECK_THROWS_WITH(
      model.evaluate(samples(rows), {.batch_size = 8}),
      Catch::Contains("what evaluate is given: samples: rank 0 has 16, rank 1 has 13"));
  CHECK_THROWS_WITH(
      model.predict(samples(8), {.batch_size = 8, .stop_request = stop_request}),
      Catch::Contains("what predict is given: stop_request: rank 0 has true, rank 1 has false"));
}

}  // namespace meshwork::transports_test

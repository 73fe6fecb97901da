// Transports as configurations and programs choose them, those of one's own too.
#include "runtime/train/transport_choice.h"

#include <cstdint>
#include <memory>

#include "collectives/error.h"
#include "collectives/forwarding.h"
#include "collectives/mpi_transport.h"
#include "layers/dense.h"
#include "layers/pages.h"
#include "runtime/config/load.h"
#include "runtime/data/synthetic.h"
#include "runtime/pages.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/model.h"
#include "runtime/train/optimizers/sgd.h"
#include "runtime/train/run_config.h"
#include "tests/support/apart_queues.h"
#include "tests/support/catch.h"
#include "tests/support/one_rank.h"

namespace meshwork::transport_choice_test {

namespace {

struct MineOptions {
  std::int64_t depth = 1;
};

template <class Visitor>
void describe(MineOptions& options, Visitor& option) {
  option("depth", options.depth, positive, "how deep it is");
}

/// By MPI, of which it counts what is compiled.
class Mine final : public ForwardingTransport {
 public:
  Mine(std::unique_ptr<Transport> inner, int& compiled)
      : ForwardingTransport(*inner), inner_(std::move(inner)), compiled_(&compiled) {}

 protected:
  [[nodiscard]] Compiled make(const Communicator& communicator, const Collective& collective,
                              Use use) override {
    ++*compiled_;
    return ForwardingTransport::make(communicator, collective, use);
  }

 private:
  std::unique_ptr<Transport> inner_;
  int* compiled_;
};

Catalog catalog_with_mine(int& compiled) {
  Catalog catalog;
  add_runtime(catalog);
  add_layers(catalog);
  add_transport<MineOptions>(
      catalog, "Mine", [&compiled](const MineOptions&, const Communicator& ranks) {
        return std::make_unique<Mine>(make_transport("mpi", ranks), compiled);
      });
  return catalog;
}

RunConfig run(const std::string& collectives, int& compiled) {
  return {parse_config("model: {input: [3], layers: [Dense: {units: 2}]}\ncollectives: " +
                           collectives + "\n",
                       "run.yaml"),
          catalog_with_mine(compiled)};
}
RunConfig run(const std::string& collectives) {
  int compiled = 0;
  return run(collectives, compiled);
}

/// The weights after some steps, what is sent held against the plan.
std::vector<std::vector<float>> trained(DeviceMesh& mesh, const TransportChoice& collectives) {
  const auto input = Input({6});
  Model model(input, Dense({.name = "d1", .units = 5})(input), DataParallel(mesh),
              {.seed = 3, .device = "cpu", .collectives = collectives, .check_plan = true});
  model.compile({.loss = MeanSquaredError(), .optimizer = SGD({.learning_rate = 0.1})});
  const auto data = std::make_shared<SyntheticSource>(
      40,
      std::vector<SyntheticField>{
          {"x", {6}, ElementType::float32, FieldRole::feature, SyntheticKind::uniform, -1, 1},
          {"y", {5}, ElementType::float32, FieldRole::target, SyntheticKind::uniform, -1, 1}},
      11);
  (void)model.fit(data, {.epochs = 2, .batch_size = 8, .verbose = Verbosity::silent});
  return test::variables_of(model);
}

void make_model(DeviceMesh& mesh, const TransportChoice& collectives) {
  const auto input = Input({3});
  const Model model(input, Dense({.name = "d1", .units = 2})(input), DataParallel(mesh),
                    {.device = "cpu", .collectives = collectives});
}

}  // namespace

TEST_CASE("each transport that there is has a page under its name") {
  Catalog catalog;
  add_runtime(catalog);
  CHECK(catalog.all<TransportChoice>().size() == transport_names().size());
  for (const std::string& name : transport_names()) {
    INFO(name);
    REQUIRE(catalog.find<TransportChoice>(name) != nullptr);
    CHECK(run(name).options().collectives.name() == name);
  }
}

TEST_CASE("a configuration names a transport of one's own, with its options") {
  CHECK(run("Mine").options().collectives.name() == "Mine of depth 1");
  CHECK(run("{Mine: {depth: 2}}").options().collectives.name() == "Mine of depth 2");
  CHECK_THROWS_WITH(run("{Mine: {depth: 0}}"), Catch::StartsWith("run.yaml:2:29: ") &&
                                                   Catch::Contains("expected a positive integer"));
  CHECK_THROWS_WITH(run("{Mine: {depht: 2}}"), Catch::StartsWith("run.yaml:2:22: ") &&
                                                   Catch::Contains("did you mean \"depth\"?"));
}

TEST_CASE("a transport that there is not is said where it stands, with the nearest name") {
  CHECK_THROWS_WITH(
      run("mpj"),
      Catch::StartsWith("run.yaml:2:14: collectives: unknown transport \"mpj\"; did you "
                        "mean \"mpi\"? (known: "));
  CHECK_THROWS_WITH(
      run("Mime"),
      Catch::StartsWith("run.yaml:2:14: collectives: unknown transport \"Mime\"; did you "
                        "mean \"Mine\"? (known: "));
  CHECK_THROWS_WITH(run("[mpi]"), Catch::StartsWith("run.yaml:2:14: ") &&
                                      Catch::Contains("expected a transport, such as shared"));
}

TEST_CASE("a model talks by a transport of one's own, and what it sends is counted") {
  DeviceMesh mesh({{"data", -1}});
  int compiled = 0;
  const RunConfig config = run("{Mine: {depth: 2}}", compiled);
  const auto by_mine = trained(mesh, config.options().collectives);
  CHECK(compiled > 0);
  CHECK(by_mine == trained(mesh, "mpi"));  // which it is
}

TEST_CASE("checkpoints name a transport of one's own by its class, others by what serves") {
  const Communicator world = Communicator::world();
  int compiled = 0;
  const TransportChoice mine = run("Mine", compiled).options().collectives;
  const TransportChoice any = "auto";
  CHECK(mine.name_of(*mine.make(world, nullptr, {})) == "Mine of depth 1");
  CHECK(any.name_of(*any.make(world, nullptr, {})) == (world.size() > 1 ? "shared" : "mpi"));
}

TEST_CASE("what is sent of a device's own memory is staged in front of a transport of one's own") {
  const Communicator world = Communicator::world();
  int compiled = 0;
  const TransportChoice mine = run("Mine", compiled).options().collectives;
  test::ApartQueues device(true);
  const std::unique_ptr<Transport> transport = mine.make(world, &device, {});
  constexpr std::int64_t count = 5;
  std::vector<float> values(count, static_cast<float>(world.rank() + 1));
  const Memory memory = device.allocate(4 * count);
  device.kernels().start_copy(memory.data(), values.data(), 4 * count);
  transport->run(world, AllReduce{ElementType::float32, Reduction::sum, count}, memory.data());
  device.kernels().start_copy(values.data(), memory.data(), 4 * count);
  const std::unique_ptr<Mark> done = device.make_mark();
  device.kernels().record(*done);
  done->wait();
  const auto ranks = static_cast<float>(world.size());
  CHECK(values == std::vector<float>(count, ranks * (ranks + 1) / 2));
  CHECK(compiled > 0);
}

TEST_CASE("a transport that one rank cannot make is an error on all, and so is none") {
  DeviceMesh mesh({{"data", -1}});
  const Communicator world = Communicator::world();
  const int last = world.size() - 1;
  const TransportChoice broken("Broken", [&](const Communicator& ranks) {
    if (ranks.rank() == last) fail("no cable");
    return make_mpi_transport();  // for which no rank waits
  });
  CHECK_THROWS_WITH(make_model(mesh, broken), last == 0
                                                  ? std::string("Broken: no cable")
                                                  : fmt::format("rank {}: Broken: no cable", last));
  const TransportChoice none("None", [](const Communicator&) { return nullptr; });
  CHECK_THROWS_WITH(make_model(mesh, none), Catch::Contains("None has made no transport"));
}

TEST_CASE("ranks whose transports differ in an option are told so") {
  const Communicator world = Communicator::world();
  if (world.size() == 1) return;
  DeviceMesh mesh({{"data", -1}});
  int compiled = 0;
  const RunConfig config = run(world.rank() == 1 ? "{Mine: {depth: 2}}" : "Mine", compiled);
  CHECK_THROWS_WITH(make_model(mesh, config.options().collectives),
                    Catch::Contains("the model's options: collectives: rank 0 has Mine of depth 1, "
                                    "rank 1 has Mine of depth 2"));
}

}  // namespace meshwork::transport_choice_test

// How long a role and its functions live, and how it ends.
#include <mpi.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "collectives/communicator.h"
#include "layers/pages.h"
#include "runtime/config/load.h"
#include "runtime/pages.h"
#include "runtime/train/roles/evaluate.h"
#include "runtime/train/roles/role.h"
#include "runtime/train/run_config.h"
#include "tests/support/catch.h"

namespace meshwork::play_test {

namespace {

const char* const text = R"(
data:
  train: {kind: synthetic, rows: 30, features: {kind: normal, shape: [3]},
          targets: {kind: normal, shape: [2]}}
  batch_size: 6
model: {input: [3], layers: [Dense: {units: 2}]}
loss: mse
fit: {validation_split: 0.2}
roles: {train: 1, evaluate: -1}
)";

RunConfig config_of(Catalog& catalog) {
  add_runtime(catalog);
  add_layers(catalog);
  return {parse_config(text, "run.yaml"), catalog};
}

std::atomic<bool> is_gone{false};  // the state of `Brief`
std::atomic<bool> has_run{false};

/// Runs for longer than a limit, having heard of the end or not.
class Slow final : public Role {
 public:
  explicit Slow(bool asks) : asks_(asks) {}
  void run(RoleRun& run) const override {
    if (asks_) run.end.wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  }

 private:
  bool asks_;
};

/// Stops, on the first rank that has it, when another thread asks this rank to.
class Asked final : public Role {
 public:
  explicit Asked(StopRequest& request) : request_(&request) {}
  void run(RoleRun& run) const override {
    if (run.ranks.rank() == 0) request_->ask(12);
    run.end.wait();
  }

 private:
  StopRequest* request_;
};

std::vector<RoleRanks> one_trains(const Communicator& world, SharedRole others) {
  return {{.name = "train", .first = 0, .count = 1},
          {.name = "other", .role = std::move(others), .first = 1, .count = world.size() - 1}};
}

/// Opens nothing. One returns before the end, the other after it.
class Brief final : public Role {
 public:
  explicit Brief(bool waits) : waits_(waits) {}
  void run(RoleRun& run) const override {
    struct State {
      ~State() { is_gone = true; }
    };
    run.keep<State>();
    run.rpc.define("is gone", [] { return is_gone.load(); });
    run.rpc.define("has run", [] { return has_run.load(); });
    if (waits_) run.end.wait();
    has_run = true;
  }

 private:
  bool waits_;
};

// On the rank that trains: it is told of a stop for this reason within 10 s.
void expect_stop(int reason, const RoleMap& map, Rpc& rpc) {
  StopRequest passed;
  RolesAtWork at_work(map, rpc, [&](int told) { passed.ask(told); });
  rpc.open();
  for (int i = 0; i < 1000 && passed.reason() == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    rpc.progress();
  }
  CHECK(passed.reason() == reason);
  at_work.end(20);
  rpc.close();
}

}  // namespace

TEST_CASE("functions of a role are called from the start to the end, and have their state") {
  const bool threads = GENERATE(true, false);
  const bool waits = GENERATE(false, true);
  is_gone = has_run = false;
  const Communicator world = Communicator::world();
  Catalog catalog;
  const RunConfig config = config_of(catalog);
  const std::vector<RoleRanks> roles = one_trains(world, std::make_shared<const Brief>(waits));
  const Communicator part = world.split(world.rank() == 0 ? 0 : 1, 0);
  Rpc rpc(world, {.threads = threads});
  const RoleMap map = map_of(roles);
  if (world.rank() > 0) {
    play(roles.at(1), map, config, part, rpc);
    CHECK(is_gone);
  } else {
    RolesAtWork at_work(map, rpc);
    rpc.open();
    for (int rank = 1; rank < world.size(); ++rank) {
      CHECK_FALSE(rpc.call_within<bool>(20, rank, "is gone").get());
    }
    at_work.end(20);
    for (int rank = 1; rank < world.size(); ++rank) {
      CHECK(rpc.call_within<bool>(20, rank, "has run").get());
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      CHECK_FALSE(rpc.call_within<bool>(20, rank, "is gone").get());
    }
    rpc.close();
  }
}

TEST_CASE("a role that does not return in time is named, with its rank and what it failed to do") {
  const bool threads = GENERATE(true, false);
  const bool asks = GENERATE(false, true);
  const Communicator world = Communicator::world();
  Catalog catalog;
  const RunConfig config = config_of(catalog);
  const std::vector<RoleRanks> roles = one_trains(world, std::make_shared<const Slow>(asks));
  const RoleMap map = map_of(roles);
  const Communicator part = world.split(world.rank() == 0 ? 0 : 1, 0);
  Rpc rpc(world, {.threads = threads});
  if (world.rank() > 0) {
    play(roles.at(1), map, config, part, rpc);
  } else {
    RolesAtWork at_work(map, rpc);
    rpc.open();
    CHECK_THROWS_WITH(
        at_work.end(0.5),
        asks
            ? "roles: rank 1 (other) has not ended 0.5 s after training: its role has not returned "
              "from `run`"
            : "roles: rank 1 (other) has not ended 0.5 s after training: it answers no calls: its "
              "role does not ask for the end, or a function of it does not return");
    rpc.close();
  }
}

TEST_CASE("what asks a rank with a role to stop reaches the first rank that trains") {
  const bool threads = GENERATE(true, false);
  const Communicator world = Communicator::world();
  Catalog catalog;
  const RunConfig config = config_of(catalog);
  StopRequest request;
  const std::vector<RoleRanks> roles = one_trains(world, std::make_shared<const Asked>(request));
  const RoleMap map = map_of(roles);
  const Communicator part = world.split(world.rank() == 0 ? 0 : 1, 0);
  Rpc rpc(world, {.threads = threads});
  if (world.rank() > 0) {
    play(roles.at(1), map, config, part, rpc, &request);
  } else {
    expect_stop(12, map, rpc);
  }
}

TEST_CASE("what asks any of the evaluators to stop reaches the first rank that trains") {
  const bool threads = GENERATE(true, false);
  const Communicator world = Communicator::world();
  Catalog catalog;
  const RunConfig config = config_of(catalog);
  const std::vector<RoleRanks> roles = config.roles().on(world.size());
  const Communicator part = world.split(world.rank() == 0 ? 0 : 1, 0);
  Rpc rpc(world, {.threads = threads});
  const RoleMap map = map_of(roles);
  const JobWithin within(part);
  if (world.rank() > 0) {
    StopRequest request;
    if (world.rank() == world.size() - 1) request.ask(12);
    play(roles.at(1), map, config, part, rpc, &request);
  } else {
    expect_stop(12, map, rpc);
  }
}

TEST_CASE("what is wrong with an evaluator ends the evaluation on all, and is said") {
  const bool threads = GENERATE(true, false);
  const Communicator world = Communicator::world();
  Catalog catalog;
  const RunConfig config = config_of(catalog);
  const std::vector<RoleRanks> roles = config.roles().on(world.size());
  const Communicator part = world.split(world.rank() == 0 ? 0 : 1, 0);
  Rpc rpc(world, {.threads = threads});
  const RoleMap map = map_of(roles);
  const JobWithin within(part);
  if (world.rank() > 0) {
    play(roles.at(1), map, config, part, rpc);
  } else {
    RolesAtWork at_work(map, rpc);
    rpc.open();
    const auto evaluator = evaluator_at(rpc, 1, 20);
    evaluator->start(0, std::vector<float>(8));
    CHECK(evaluator->finish().names().front() == "loss");
    evaluator->start(1, std::vector<float>(9));
    CHECK_THROWS_WITH(
        evaluator->finish(),
        Catch::Contains("the weights have 9 elements, and the evaluators' model has 8"));
    evaluator->start(2, std::vector<float>(8));
    CHECK_THROWS_WITH(evaluator->finish(), Catch::Contains("the weights have 9 elements"));
    at_work.end(20);
    rpc.close();
  }
}

}  // namespace meshwork::play_test

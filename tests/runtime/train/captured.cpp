// Steps whose collectives the device works off on its own, captured with the kernels: on a device
// that is apart, by the NCCL transport on an NCCL that is made of MPI.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/counting.h"
#include "collectives/mpi_transport.h"
#include "collectives/nccl/nccl_transport.h"
#include "collectives/staged_transport.h"
#include "layers/dense.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/shape/block_parts.h"
#include "runtime/train/engine/engine.h"
#include "runtime/train/metrics/categorical_accuracy.h"
#include "runtime/train/optimizers/adam.h"
#include "tests/support/apart_device.h"
#include "tests/support/apart_queues.h"
#include "tests/support/nccl_on_host/control.h"
#include "tests/support/plans.h"

namespace meshwork::captured_test {

using namespace meshwork::test;

namespace {

constexpr std::int64_t rows = 8;
constexpr int steps = 5;

struct Setting {
  std::string axis;
  LayoutEntries layouts;
  std::string batch_axis;
};

/// Some steps of training.
struct Run {
  std::vector<std::vector<float>> variables;  // this rank's blocks
  std::size_t instructions = 0, starts = 0;   // of a step
  std::int64_t captures = 0;
  std::int64_t operations = 0;  // that NCCL was given in the last step
  std::uint64_t position = 0;   // of the trace
};

Trained network() {
  return {.build =
              [](const SymbolicTensor& x) {
                auto y = Dense({.name = "d1", .units = 8, .activation = Activation::relu})(x);
                y = Dense({.name = "d2", .units = 8})(y);
                return Dense({.name = "d3", .units = 40})(y);
              },
          .metrics = {SparseCategoricalAccuracy()},
          .optimizer = Adam()};
}

/// By the transport itself, or counted, which nothing is captured of but kernels; or on the last
/// rank NCCL refuses to capture the second sum.
Run trained(const Setting& setting, bool counted, bool refused = false) {
  const Communicator world = Communicator::world();
  const std::unique_ptr<Device> device = make_apart_device_with_streams({});
  auto& queues = dynamic_cast<ApartQueues&>(device->queues());
  const std::unique_ptr<Transport> transport =
      nccl::make_nccl_transport(world, make_staged_transport(make_mpi_transport(), queues), queues);
  CountingTransport counting(*transport);
  CollectiveTrace trace;
  trace.follow(transport->enqueued());
  DeviceMesh mesh({{setting.axis, world.size()}});
  const Trained training = network();
  const Plan plan = plan_of(training, mesh.shape(), setting.layouts, setting.batch_axis, rows,
                            {.latency_seconds = 0});
  Run run;
  {
    Engine engine(mesh, *device, counted ? static_cast<Transport&>(counting) : *transport, plan, 1,
                  training.optimizer.update_rule(), &trace, counted ? &counting : nullptr);
    Step& step = engine.step({Mode::train, rows});
    for (int i = 0; i < steps; ++i) {
      const std::int64_t before = nccl_on_host().operations;
      if (refused && i == 1 && world.rank() == world.size() - 1) {
        nccl_on_host().failing = "ncclAllReduce";
        nccl_on_host().before_failing = 1;
      }
      for (std::size_t part = 0; part < step.fed_parts().size(); ++part) {
        const auto& [id, of_rank] = step.fed_parts()[part];
        const TensorRole role = plan.graph->tensors[id].role;
        const std::int64_t count = size_of(of_rank);
        std::vector<float> block = random_floats(count, static_cast<std::uint32_t>(i));
        for (float& value : block) value = role == TensorRole::target ? i % 4 : value;
        step.feed(part, block.data());
      }
      step.run({i, 0.01F});
      run.operations = nccl_on_host().operations - before;
    }
    run.instructions = step.program().instruction_count();
    run.starts = step.program().start_count();
    run.captures = queues.captures();
    device->synchronize();
    run.position = trace.position();
    for (std::size_t v = 0; v < plan.graph->variables.size(); ++v) {
      const int variable = static_cast<int>(v);
      std::vector<float>& block = run.variables.emplace_back(
          static_cast<std::size_t>(engine.parameters().form().spans[variable].count));
      device->copy_out(block.data(), engine.parameters().block(variable), std::ssize(block) * 4);
    }
  }
  return run;
}

/// Of the trace, for one collective more: the ranks agree that each has captured the step.
constexpr std::uint64_t agreement = 2;

const Setting by_data{"data", {}, "data"};
const Setting fully_sharded{
    "data", {{".*/kernel", {"data", unsharded}}, {".*/bias", {"data"}}}, "data"};
const Setting by_columns{"model",
                         {{"d1/kernel", {unsharded, "model"}},
                          {"d1/bias", {"model"}},
                          {"d2/kernel", {"model", unsharded}}},
                         ""};
/// Whose loss takes a maximum over the ranks, which NCCL's is not.
const Setting by_classes{"model",
                         {{"d3/kernel", {unsharded, "model"}},
                          {"d3/bias", {"model"}},
                          {"d3/output", {unsharded, "model"}}},
                         ""};

}  // namespace

TEST_CASE("a step whose collectives are all enqueued is one start, and has the same numbers") {
  if (Communicator::world().size() == 1) return;
  for (const Setting& setting : {by_data, fully_sharded, by_columns}) {
    INFO("over " << setting.axis << ", " << setting.layouts.size() << " layouts");
    const Run captured = trained(setting, false);
    CHECK(captured.starts == 1);
    CHECK(captured.operations == 0);
    CHECK(captured.captures == 2);  // one of them is the trial
    const Run counted = trained(setting, true);
    CHECK(counted.starts > 2);
    CHECK(counted.starts < counted.instructions);
    CHECK(counted.operations > 0);
    CHECK(captured.variables == counted.variables);
    // Others read the same, however the step was started.
    CHECK(captured.position == counted.position + agreement);
  }
}

TEST_CASE(
    "a step that one rank cannot capture is started one by one on all, with the same numbers") {
  if (Communicator::world().size() == 1) return;
  for (const Setting& setting : {by_data, by_columns}) {
    const Run refused = trained(setting, false, true);
    CHECK(nccl_on_host().failing.empty());
    CHECK(refused.starts == 1);  // a piece, which starts what it is made of
    CHECK(refused.operations > 0);
    const Run captured = trained(setting, false);
    CHECK(refused.variables == captured.variables);
    CHECK(refused.position == captured.position);
  }
}

TEST_CASE("a step with a collective that is staged is captured around it") {
  if (Communicator::world().size() == 1) return;
  const Run captured = trained(by_classes, false);
  CHECK(captured.starts == 3);
  CHECK(captured.captures == 3);
  const Run counted = trained(by_classes, true);
  CHECK(counted.starts > 3);
  CHECK(captured.variables == counted.variables);
  CHECK(captured.position == counted.position + agreement);
}

}  // namespace meshwork::captured_test

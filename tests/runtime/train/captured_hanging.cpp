// A rank that does not come to a captured step: the others have started it, and the processor waits
// for the device outside of any collective. What the watchdog says of it is what the test looks at.
#include <atomic>
#include <memory>

#include "collectives/error.h"
#include "collectives/mpi_transport.h"
#include "collectives/nccl/nccl_transport.h"
#include "collectives/staged_transport.h"
#include "collectives/watchdog.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/program.h"
#include "runtime/mesh/mesh_collectives.h"
#include "tests/support/apart_device.h"

using namespace meshwork;

namespace {

void run() {
  const Communicator world = Communicator::world();
  const bool is_last = world.rank() == world.size() - 1;
  const std::unique_ptr<Device> device = test::make_apart_device_with_streams({});
  DeviceQueues& queues = device->queues();
  const std::unique_ptr<Transport> transport =
      nccl::make_nccl_transport(world, make_staged_transport(make_mpi_transport(), queues), queues);
  Watchdog watchdog(world, {.seconds = 0.5});
  CollectiveTrace& trace = watchdog.trace();
  trace.follow(transport->enqueued());
  DeviceMesh mesh({{"data", world.size()}});
  const auto collectives = bind_collectives(mesh, *transport, &trace);
  ProgramBuilder builder(*device);
  const Buffer values = builder.scratch(12, "values");
  for (const char* what : {"gradients of d2", "gradients of d1"}) {
    builder.emit(AffineSpec{3, 1, 1}, {values, values}, "more");
    builder.emit(collectives->book({{"backward", what}, {0}, 3},
                                   AllReduce{ElementType::float32, Reduction::sum, 3}),
                 {values}, what);
  }
  Program step = builder.finish();
  step.record_in(trace);
  const std::unique_ptr<Mark> loss = queues.make_mark();
  for (int i = 0; i < 10; ++i) {
    // The queues of a device that is apart go on only where somebody waits.
    if (i == 6) device->synchronize();
    if (is_last && i == 6) {
      const TracedActivity activity(&trace, trace.label("layer d7"));
      for (std::atomic<long> turn = 0;; turn.fetch_add(1, std::memory_order_relaxed)) {
      }
    }
    step.run();
    queues.kernels().record(*loss);
    loss->wait();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const MpiEnvironment environment(&argc, &argv);
  try {
    run();
  } catch (const std::exception& error) {
    abort_job(1, error.what());
  }
}

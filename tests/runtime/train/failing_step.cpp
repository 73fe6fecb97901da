// A program whose training step fails on one rank: the job has to end, soon, with that rank's
// message. Not a test by itself; CTest looks at how it ends.

#include "layers/dense.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/model.h"
#include "runtime/train/optimizers/sgd.h"

using namespace meshwork;

namespace {

// A transport that fails on rank 1 when it is asked for the third time.
class FailingTransport final : public Transport {
 public:
  FailingTransport(Transport& inner, bool fails) : inner_(inner), fails_(fails) {}

  std::string_view name() const override { return "failing"; }
  void all_reduce(const Communicator& communicator, ElementType type, Reduction reduction,
                  void* buffer, std::int64_t count) override {
    note();
    inner_.all_reduce(communicator, type, reduction, buffer, count);
  }
  Pending start_all_reduce(const Communicator& communicator, ElementType type, Reduction reduction,
                           void* buffer, std::int64_t count) override {
    note();
    return inner_.start_all_reduce(communicator, type, reduction, buffer, count);
  }
  void reduce_scatter(const Communicator& communicator, ElementType type, const void* send,
                      void* receive, std::span<const std::int64_t> counts) override {
    inner_.reduce_scatter(communicator, type, send, receive, counts);
  }
  void all_gather(const Communicator& communicator, ElementType type, const void* send,
                  void* receive, std::span<const std::int64_t> counts,
                  std::span<const std::int64_t> offsets) override {
    inner_.all_gather(communicator, type, send, receive, counts, offsets);
  }
  void all_to_all(const Communicator& communicator, ElementType type, const void* send,
                  std::span<const std::int64_t> send_counts,
                  std::span<const std::int64_t> send_offsets, void* receive,
                  std::span<const std::int64_t> receive_counts,
                  std::span<const std::int64_t> receive_offsets) override {
    inner_.all_to_all(communicator, type, send, send_counts, send_offsets, receive, receive_counts,
                      receive_offsets);
  }
  void exchange(const Communicator& communicator, ElementType type, const void* send,
                std::span<const NeighbourBlock> sends, void* receive,
                std::span<const NeighbourBlock> receives) override {
    inner_.exchange(communicator, type, send, sends, receive, receives);
  }
  void broadcast(const Communicator& communicator, ElementType type, void* buffer,
                 std::int64_t count, int root) override {
    inner_.broadcast(communicator, type, buffer, count, root);
  }

 private:
  void note() {
    if (fails_ && ++operations_ == 3) {
      fail("the cable is out");
    }
  }

  Transport& inner_;
  bool fails_;
  int operations_ = 0;
};

void train() {
  DeviceMesh mesh({{"data", -1}});
  const auto input = Input({3});
  const Graph model = make_graph({input}, {Dense({.name = "d1", .units = 2})(input)});
  const Objective objective = with_objective(model, *MeanSquaredError(), {}, {2});
  const PlanRequest request{
      objective.graph.get(), objective.loss_operation, mesh.shape(), Axis{0}, {}, 8, {}};
  const std::unique_ptr<Device> device = make_device({.kind = "cpu"});
  const std::unique_ptr<Transport> transport = make_transport("auto");
  FailingTransport failing(*transport, mesh.rank() == 1);
  Engine engine(mesh, *device, failing, make_plan(request, objective.graph), 1, SGD().update_rule(),
                {});
  Step& step = engine.step(Mode::train, 8, {});
  for (std::int64_t iteration = 0; iteration < 5; ++iteration) {
    step.run({iteration, 0.1f});
  }
}

}  // namespace

int main(int argc, char** argv) {
  MpiEnvironment environment(&argc, &argv);
  try {
    train();
  } catch (const std::exception& error) {
    abort_job(3, error.what());
  }
}

// A program whose training step fails on one rank: the job has to end, soon, with that rank's
// message. Not a test by itself; CTest looks at how it ends.

#include "layers/dense.h"
#include "runtime/train/engine/engine.h"
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

 protected:
  Compiled make(const Communicator& communicator, const Collective& collective, Use use) override {
    Compiled inner = inner_.compile(communicator, collective, use);
    if (!std::holds_alternative<AllReduce>(collective)) return inner;
    return done_by([this, inner = std::move(inner)](const void* send, void* receive) {
      note();
      inner->run(send, receive);
    });
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
  const Objective objective = with_objective(model, {{MeanSquaredError()}}, {.targets = {{2}}});
  const PlanRequest request{
      objective.graph.get(), objective.losses, mesh.shape(), Axis{0}, {}, 8, {}};
  const std::unique_ptr<Device> device = make_device({.kind = "cpu"});
  const std::unique_ptr<Transport> transport = make_transport("auto");
  FailingTransport failing(*transport, mesh.rank() == 1);
  Engine engine(mesh, *device, failing, make_plan(request, objective.graph), 1, SGD().update_rule(),
                {});
  Step& step = engine.step({Mode::train, 8});
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

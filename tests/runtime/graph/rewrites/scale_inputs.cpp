// What is fed is scaled where it is converted, if nobody else reads it.
#include "layers/add.h"
#include "layers/dense.h"
#include "layers/rescaling.h"
#include "runtime/graph/operations/identity.h"
#include "tests/support/plans.h"

namespace meshwork::scale_inputs_test {

using namespace meshwork::test;

namespace {

Plan plan_of(const Trained& training) {
  return test::plan_of(training, mesh_of({{"data", 2}}), {}, "data", 8);
}

bool is_identity(const PlannedOperation& planned) {
  return dynamic_cast<const IdentityOperation*>(planned.operation.get()) != nullptr;
}

}  // namespace

TEST_CASE("the only reader of what is fed, if it scales it, does nothing") {
  const Plan plan = plan_of({.build = [](const SymbolicTensor& x) {
    return Dense({.units = 4})(Rescaling({.scale = 0.5, .offset = -1})(x));
  }});
  const auto& scaling = plan.tensors[static_cast<std::size_t>(plan.graph->inputs[0])].scaling;
  REQUIRE(scaling);
  CHECK(scaling->scale == 0.5f);
  CHECK(scaling->offset == -1);
  CHECK(is_identity(plan.operations[0]));
  CHECK(plan.operations[0].path == "rescaling/affine");
}

TEST_CASE("what others read too, or an operation made, is scaled by itself") {
  const Plan twice = plan_of({.build = [](const SymbolicTensor& x) {
    return Dense({.units = 4})(Add()({Rescaling({.scale = 0.5})(x), x}));
  }});
  CHECK_FALSE(twice.tensors[static_cast<std::size_t>(twice.graph->inputs[0])].scaling);
  CHECK_FALSE(is_identity(twice.operations[0]));

  const Plan later = plan_of({.build = [](const SymbolicTensor& x) {
    return Rescaling({.scale = 0.5})(Dense({.units = 4})(x));
  }});
  for (const PlannedTensor& tensor : later.tensors) {
    CHECK_FALSE(tensor.scaling);
  }
}

}  // namespace meshwork::scale_inputs_test

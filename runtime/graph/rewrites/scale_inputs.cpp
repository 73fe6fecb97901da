// What is fed is scaled where it is converted.
//
// Bytes of an image become numbers in one pass, and a Rescaling behind it is another. The pass that
// converts what is fed, or gathers it, can scale it too. So an operation that scales what is fed,
// and is its only reader, becomes the identity, and the tensor is what was fed, scaled.
#include <algorithm>
#include <memory>

#include "runtime/graph/operations/affine.h"
#include "runtime/graph/operations/identity.h"
#include "runtime/graph/rewrites/rewrites.h"

namespace meshwork {

void scale_inputs(Plan& plan) {
  const std::vector<TensorId>& outputs = plan.graph->outputs;
  for (PlannedOperation& planned : plan.operations) {
    const auto* affine = dynamic_cast<const AffineOperation*>(planned.operation.get());
    if (affine == nullptr) {
      continue;
    }
    const TensorId id = planned.inputs[0];
    const GraphTensor& fed = plan.graph->tensors[id];
    const bool seen = std::find(outputs.begin(), outputs.end(), id) != outputs.end();
    if (fed.role == TensorRole::input && fed.consumers.size() == 1 && !seen) {
      plan.tensors[id].scaling = Scaling{affine->scale(), affine->offset()};
      planned.operation = std::make_shared<IdentityOperation>();
    }
  }
}

}  // namespace meshwork

// Who uses a value takes the derivative of the activation that made it.
//
// Backward, what could be one kernel belongs to two operations: the gradient of a value
// y = activation(z) is made by the operation that uses y, and multiplied by the derivative by the
// one that made y. The user is the one to do both, and the maker finds the gradient of z, where
//   - nobody else uses y: else the gradient would not be complete yet, and several would multiply;
//   - the user can (`Fusible::takes_derivative`), and the maker knows of it (`Fusible::ends_in`);
//   - both hold the same block of y, so that no rank multiplies what is not its own.
// What the user gives may be a partial sum over ranks. The derivative depends on y alone, which is
// the same on all of them; a sum of products with it is the product with the sum, so it may as well
// be taken before the reduction as after, and the plan's collectives carry as many bytes.
//
// The derivative is told from y or, of activations where that does not tell it, from input 0 of the
// maker, which then is what the activation is applied to (operations/activation.h).
#include <vector>

#include "runtime/graph/operation_windows.h"
#include "runtime/graph/operations/activation.h"
#include "runtime/graph/rewrites/rewrites.h"

namespace meshwork {

void hand_over_derivatives(Plan& plan) {
  std::vector<const PlannedOperation*> makers(plan.tensors.size(), nullptr);
  for (const PlannedOperation& planned : plan.operations) {
    makers[planned.output] = &planned;
  }
  for (const PlannedOperation& user : plan.operations) {
    const TensorId between = user.inputs[0];
    const PlannedOperation* const maker = makers[between];
    if (maker == nullptr || !user.gradient[0] ||
        plan.graph->tensors[between].consumers.size() != 1) {
      continue;
    }
    const Activation activation = maker->operation->fusible().ends_in;
    if (activation != Activation::linear && user.needed[0] == maker->natural &&
        !has_windows(user.rule, 0) && user.operation->fusible().takes_derivative) {
      PlannedTensor& tensor = plan.tensors[between];
      tensor.gradient_before = activation;
      tensor.derivative_at = differentiable_from_output(activation) ? between : maker->inputs[0];
    }
  }
}

}  // namespace meshwork

#include "runtime/graph/operations/bias.h"

#include "collectives/error.h"
#include "runtime/device/kernels/products.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {
namespace {

constexpr int bias_input = 1;

}  // namespace

BiasOperation::BiasOperation(Epilogue epilogue) : epilogue_(epilogue) {
  epilogue_.bias = true;
  epilogue_.check("a bias");
}

std::string BiasOperation::kind() const {
  Epilogue behind = epilogue_;
  behind.bias = false;
  return behind.behind("bias");
}

Shape BiasOperation::output_shape(std::span<const Shape> inputs) const {
  check_input_count(inputs, 2);
  if (inputs[0].empty() || inputs[bias_input] != Shape{inputs[0].back()}) {
    fail("an input of shape {} needs a bias as long as its last dimension, found {}",
         to_string(inputs[0]), to_string(inputs[bias_input]));
  }
  return inputs[0];
}

Rule BiasOperation::rule(std::span<const Shape> inputs) const {
  const std::string letters = dimension_letters(inputs[0].size(), 'o');
  return {.inputs = {letters, "o"}, .output = letters};
}

void BiasOperation::forward(Lowering& lowering) const {
  const Shape y = lowering.local_output_shape();
  lowering.emit(BiasAddSpec{rows_of(y), columns_of(y), epilogue_.activation},
                {lowering.input(0), lowering.input(bias_input), lowering.output()});
  epilogue_.drop(lowering);
}

void BiasOperation::backward(Lowering& lowering) const {
  const Shape y = lowering.local_output_shape();
  const bool input_wanted = lowering.needs_gradient(0);
  const bool bias_wanted = lowering.needs_gradient(bias_input);
  if (!input_wanted && !bias_wanted) {
    return;
  }
  Operand dz;  // the gradient before the activation, which is dx
  if (!input_wanted) {
    dz = epilogue_.gradient_before(lowering, element_count(y));
  } else if (epilogue_.gradient_is_before(lowering)) {
    dz = lowering.output_gradient();
    lowering.input_gradient_is_output_gradient(0);
  } else {
    dz = lowering.input_gradient(0);
    lowering.emit(epilogue_.gradient(element_count(y)),
                  {lowering.output(), lowering.output_gradient(), dz});
  }
  if (bias_wanted) {
    lowering.emit(ColumnSumSpec{rows_of(y), columns_of(y)},
                  {dz, lowering.input_gradient(bias_input)});
  }
}

bool BiasOperation::backward_reads(int) const {
  return false;
}

std::unique_ptr<Operation> BiasOperation::fused_with(const Operation& next, int position) const {
  const std::optional<Epilogue> joined = epilogue_.then(next, position);
  return joined ? std::make_unique<BiasOperation>(*joined) : nullptr;
}

}  // namespace meshwork

#include "runtime/graph/operations/product.h"

#include "collectives/error.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operations/activation.h"
#include "runtime/graph/operations/bias.h"
#include "runtime/graph/operations/dimensions.h"
#include "runtime/graph/operations/identity.h"

namespace meshwork {
namespace {

constexpr int kernel = 1;
constexpr int bias = 2;

}  // namespace

ProductOperation::ProductOperation(bool bias, Activation activation)
    : bias_(bias), activation_(activation) {
  if (!differentiable_from_output(activation)) {
    internal_error("a product cannot be joined with this activation");
  }
}

std::string ProductOperation::kind() const {
  const std::string_view stem = bias_ ? "product+bias" : "product";
  return activation_ == Activation::linear ? std::string(stem)
                                           : fmt::format("{}+{}", stem, name_of(activation_));
}

Shape ProductOperation::output_shape(std::span<const Shape> inputs) const {
  check_input_count(inputs, bias_ ? 3 : 2);
  const Shape& x = inputs[0];
  if (x.size() < 2) {
    fail("expected an input of at least two dimensions, batch and features, found shape {}",
         to_string(x));
  }
  if (inputs[kernel].size() != 2 || inputs[kernel][0] != x.back()) {
    fail("a product of an input of shape {} needs a kernel of shape ({}, outputs), found {}",
         to_string(x), x.back(), to_string(inputs[kernel]));
  }
  Shape output = x;
  output.back() = inputs[kernel][1];
  if (bias_ && inputs[bias] != Shape{output.back()}) {
    fail("expected a bias of shape {}, found {}", to_string(Shape{output.back()}),
         to_string(inputs[bias]));
  }
  return output;
}

Rule ProductOperation::rule(std::span<const Shape> inputs) const {
  const std::size_t count = inputs[0].size();
  // What comes after the sum over i needs it complete.
  const bool joined = bias_ || activation_ != Activation::linear;
  Rule rule{.inputs = {dimension_letters(count, 'i'), "io"},
            .output = dimension_letters(count, 'o'),
            .whole = joined ? "i" : ""};
  if (bias_) {
    rule.inputs.emplace_back("o");
  }
  return rule;
}

double ProductOperation::flops(std::span<const Shape> inputs, const Shape& output) const {
  const double products =
      2.0 * static_cast<double>(element_count(output)) * static_cast<double>(inputs[0].back());
  return products + (bias_ ? static_cast<double>(element_count(output)) : 0);
}

void ProductOperation::forward(Lowering& lowering) const {
  const Shape x = lowering.local_shape(0);
  const Shape y = lowering.local_output_shape();
  MatmulSpec product{.m = rows_of(y), .n = columns_of(y), .k = columns_of(x), .bias = bias_};
  if (activation_ == Activation::relu) {
    product.activation = Activation::relu;
  }
  std::vector<Operand> operands{lowering.input(0), lowering.input(kernel)};
  if (bias_) {
    operands.push_back(lowering.input(bias));
  }
  operands.push_back(lowering.output());
  lowering.emit(product, operands);
  if (activation_ != product.activation) {
    lowering.emit(ActivationSpec{activation_, element_count(y)},
                  {lowering.output(), lowering.output()});
  }
}

void ProductOperation::backward(Lowering& lowering) const {
  const Shape x = lowering.local_shape(0);
  const Shape y = lowering.local_output_shape();
  const std::int64_t rows = rows_of(y);
  const std::int64_t outputs = columns_of(y);
  const std::int64_t features = columns_of(x);
  const bool any = lowering.needs_gradient(0) || lowering.needs_gradient(kernel) ||
                   (bias_ && lowering.needs_gradient(bias));
  if (!any) {
    return;
  }

  // dz (rows, outputs): the gradient before the activation.
  Operand dz = lowering.output_gradient();
  if (activation_ != Activation::linear) {
    dz = lowering.scratch("gradient before the activation", element_count(y) * 4);
    lowering.emit(ActivationGradientSpec{activation_, element_count(y)},
                  {lowering.output(), lowering.output_gradient(), dz});
  }
  if (lowering.needs_gradient(0)) {
    // dx (rows, features) = dz (rows, outputs) * transpose(kernel (features, outputs))
    lowering.emit(MatmulSpec{.m = rows, .n = features, .k = outputs, .transpose_b = true},
                  {dz, lowering.input(kernel), lowering.input_gradient(0)});
  }
  if (lowering.needs_gradient(kernel)) {
    // dkernel (features, outputs) = transpose(x (rows, features)) * dz (rows, outputs)
    lowering.emit(MatmulSpec{.m = features, .n = outputs, .k = rows, .transpose_a = true},
                  {lowering.input(0), dz, lowering.input_gradient(kernel)});
  }
  if (bias_ && lowering.needs_gradient(bias)) {
    lowering.emit(ColumnSumSpec{rows, outputs}, {dz, lowering.input_gradient(bias)});
  }
}

bool ProductOperation::backward_reads(int input) const {
  return input != bias;
}

std::unique_ptr<Operation> ProductOperation::fused_with(const Operation& next, int position) const {
  if (dynamic_cast<const IdentityOperation*>(&next)) {
    return std::make_unique<ProductOperation>(bias_, activation_);
  }
  if (position != 0 || activation_ != Activation::linear) {
    return nullptr;
  }
  if (const auto* added = dynamic_cast<const BiasOperation*>(&next); added && !bias_) {
    return std::make_unique<ProductOperation>(true, added->activation());
  }
  if (const auto* applied = dynamic_cast<const ActivationOperation*>(&next);
      applied && differentiable_from_output(applied->activation())) {
    return std::make_unique<ProductOperation>(bias_, applied->activation());
  }
  return nullptr;
}

}  // namespace meshwork

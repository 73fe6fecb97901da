// What layers that multiply by a kernel have in common: a variable `kernel`, then perhaps a
// variable `bias`, then an activation.
//
// Their options are aggregates, each with these members besides its own, under Keras's names:
//
//     Activation activation = Activation::linear;
//     bool use_bias = true;
//     Initializer kernel_initializer = GlorotUniform();
//     Initializer bias_initializer = Zeros();
//     Regularizer kernel_regularizer;
//     Regularizer bias_regularizer;
//     Constraint kernel_constraint;
//     Constraint bias_constraint;
//     bool trainable = true;
#pragma once

#include <memory>
#include <utility>

#include "runtime/device/kernels/activation.h"
#include "runtime/graph/graph.h"
#include "runtime/graph/layer.h"
#include "runtime/graph/layer_config.h"
#include "runtime/graph/operations/activation.h"
#include "runtime/graph/operations/bias.h"

namespace meshwork {

/// activation(y + bias), with the variable `bias`, as long as the last dimension of y.
template <class Options>
[[nodiscard]] TensorId apply_bias_and_activation(LayerBuilder& builder, const Options& options,
                                                 TensorId y) {
  if (options.use_bias) {
    const TensorId bias = builder.variable("bias", {.shape = {builder.shape(y).back()},
                                                    .initializer = options.bias_initializer,
                                                    .regularizer = options.bias_regularizer,
                                                    .constraint = options.bias_constraint});
    y = builder.apply(std::make_unique<BiasOperation>(), {y, bias});
  }
  if (options.activation != Activation::linear) {
    y = builder.apply(make_activation(options.activation), {y});
  }
  return y;
}

/// activation(operation(x, kernel) + bias), with the variables `kernel`, of shape `kernel`, and
/// `bias`.
template <class Options>
[[nodiscard]] TensorId apply_kernel_and_bias(LayerBuilder& builder, const Options& options,
                                             TensorId x, Shape kernel,
                                             std::unique_ptr<Operation> operation) {
  const TensorId weights = builder.variable("kernel", {.shape = std::move(kernel),
                                                       .initializer = options.kernel_initializer,
                                                       .regularizer = options.kernel_regularizer,
                                                       .constraint = options.kernel_constraint});
  return apply_bias_and_activation(builder, options,
                                   builder.apply(std::move(operation), {x, weights}));
}

/// Describes the members above.
template <class Options, class Visitor>
void describe_kernel_and_bias(Options& options, Visitor& option) {
  option("activation", options.activation, "function of each output; ~: none");
  option("use_bias", options.use_bias, "add a bias");
  describe_variable(option, "kernel", "the kernel", options.kernel_initializer,
                    options.kernel_regularizer, options.kernel_constraint);
  describe_variable(option, "bias", "the bias", options.bias_initializer, options.bias_regularizer,
                    options.bias_constraint);
  option("trainable", options.trainable, "train kernel and bias; false: keep them fixed");
}

}  // namespace meshwork

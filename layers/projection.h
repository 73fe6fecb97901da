// A projection: an einsum of a tensor and a kernel, then a bias. Of these are the layers whose
// kernels have more than two dimensions.
//
// Options are those of layers with kernel and bias (kernel_and_bias.h).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/graph/layer.h"
#include "runtime/graph/operations/bias.h"
#include "runtime/graph/operations/contraction.h"

namespace meshwork {

/// The equation's product of x and the variable `part`kernel of shape `kernel`, plus the variable
/// `part`bias over its last `bias_dimensions`; 0: without. Its fans are `fans`.
template <class Options>
[[nodiscard]] TensorId project(const Options& of, LayerBuilder& builder, const std::string& part,
                               std::string_view equation, TensorId x, Shape kernel, Fans fans,
                               std::size_t bias_dimensions) {
  Initializer initializer = of.kernel_initializer;
  initializer.fans = fans;
  const TensorId weights = builder.variable(part + "kernel", {.shape = std::move(kernel),
                                                              .initializer = initializer,
                                                              .regularizer = of.kernel_regularizer,
                                                              .constraint = of.kernel_constraint});
  const TensorId y = builder.apply(std::make_unique<ContractionOperation>(equation), {x, weights});
  if (bias_dimensions == 0) return y;
  const Shape& shape = builder.shape(y);
  const TensorId bias = builder.variable(
      part + "bias",
      {.shape = {shape.end() - static_cast<std::ptrdiff_t>(bias_dimensions), shape.end()},
       .initializer = of.bias_initializer,
       .regularizer = of.bias_regularizer,
       .constraint = of.bias_constraint});
  return builder.apply(std::make_unique<BiasOperation>(Epilogue{}, bias_dimensions), {y, bias});
}

/// The fans of a kernel whose first `summed` dimensions are summed, and whose others come out.
[[nodiscard]] inline Fans fans_of(const Shape& kernel, std::size_t summed) {
  const std::span<const std::int64_t> lengths(kernel);
  return {static_cast<double>(element_count(lengths.first(summed))),
          static_cast<double>(element_count(lengths.subspan(summed)))};
}

}  // namespace meshwork

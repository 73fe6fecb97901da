// How many elements the operands of a convolution have.
#pragma once

#include <cstdint>

#include "runtime/device/kernels/convolution.h"

namespace meshwork {

[[nodiscard]] inline std::int64_t input_count(const ConvolutionShape& at) {
  return at.batch * at.planes.input * at.rows.input * at.columns.input * at.channels;
}
[[nodiscard]] inline std::int64_t output_count(const ConvolutionShape& at) {
  return at.batch * at.planes.output * at.rows.output * at.columns.output * at.filters;
}
[[nodiscard]] inline std::int64_t kernel_count(const ConvolutionShape& at) {
  return at.planes.window * at.rows.window * at.columns.window * at.channels / at.groups *
         at.filters;
}

}  // namespace meshwork

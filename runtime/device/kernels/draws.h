// Random numbers, a Philox word an element of the *global* tensor: the same on every mesh.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/device/kernels/page.h"
#include "runtime/shape/block.h"

namespace meshwork {

/// y is the `block` of a tensor of shape `global`, whose element i is
///   mean + deviation * the normal distribution's inverse at (w + 1/2) / 2^32,
/// with its Philox word w (key, i, step). Operands: StepScalars, y.
struct NormalDrawSpec {
  float mean = 0, deviation = 1;
  std::uint64_t key = 0;
  Shape global;
  Block block;
  [[nodiscard]] std::string text() const { return "normal draw " + to_string(shape_of(block)); }
  [[nodiscard]] KernelWork work() const { return spec::passes(1, element_count(shape_of(block))); }
  void check() const {
    spec::require(block.size() == global.size(), text(), "has a block of other dimensions");
  }
};

/// y is the `block` of a tensor of shape `global`, whose element i is (w >> 8) / 2^24, with its
/// Philox word w: uniform in [0, 1). Operands: StepScalars, y.
struct UniformDrawSpec {
  std::uint64_t key = 0;
  Shape global;
  Block block;
  [[nodiscard]] std::string text() const { return "uniform draw " + to_string(shape_of(block)); }
  [[nodiscard]] KernelWork work() const { return spec::passes(1, element_count(shape_of(block))); }
  void check() const {
    spec::require(block.size() == global.size(), text(), "has a block of other dimensions");
  }
};

}  // namespace meshwork

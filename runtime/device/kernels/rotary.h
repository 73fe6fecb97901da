// Rotary position embedding (Su et al., "RoFormer", arXiv:2104.09864).
#pragma once

#include <cstdint>
#include <string>

#include "runtime/device/kernels/page.h"

namespace meshwork {

/// y (batch, places, vectors, length) = x, each vector turned by its place t, pair by pair: with
/// half = length / 2 and the angle a = t / scaling * wavelength^(-i / half) of pair i,
///   y[i] = x[i] cos a - x[i + half] sin a,  y[i + half] = x[i + half] cos a + x[i] sin a.
/// `back`: by the opposite angles, which is the gradient. With `all` places, t counts on from
/// StepScalars::position, and no place is behind them. Operands: x, [StepScalars, with `all`], y.
struct RotarySpec {
  std::int64_t batch = 0, places = 0, vectors = 0, length = 0;
  std::int64_t first_place = 0;
  double wavelength = 10000, scaling = 1;
  bool back = false;
  std::int64_t all = 0;
  [[nodiscard]] std::string text() const {
    return spec::sized("rotary", {batch, places, vectors, length}) +
           spec::words({{back, "back"}, {all > 0, "of a piece"}});
  }
  [[nodiscard]] KernelWork work() const {
    return spec::elements(2 * spec::product({batch, places, vectors, length}));
  }
  void check() const { spec::require(length % 2 == 0, text(), "has vectors of odd length"); }
};

}  // namespace meshwork

// Dot: samples of two inputs multiplied and summed along a dimension of each.
#pragma once

#include <array>
#include <string>

#include "runtime/config/node.h"
#include "runtime/graph/layer.h"

namespace meshwork {

/// One dimension of both inputs, or one of each, counted from the end if negative.
struct DotAxes {
  static constexpr const char* expected = "an integer, or a list of two";
  std::array<int, 2> of{};
  DotAxes() = default;
  DotAxes(int both) : of{both, both} {}
  DotAxes(int of_first, int of_second) : of{of_first, of_second} {}
};

struct DotOptions {
  std::string name;
  DotAxes axes;            // has to be given
  bool normalize = false;  // vectors along them have length 1: the product is the cosine
};

/// y (batch, dimensions of a without the axis, those of b without it) from a (batch, ...) and b
/// (batch, ...); (batch, 1) where none is left. No variables. Throws `Error`, when called, for axes
/// of different lengths, that the inputs do not have, or the batch.
[[nodiscard]] SharedLayer Dot(DotOptions options);

}  // namespace meshwork

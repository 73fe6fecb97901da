// Operations along the last dimension, along any.
#pragma once

#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "runtime/graph/layer.h"
#include "runtime/graph/operations/permute.h"

namespace meshwork {

/// `Along`, an operation along the last dimension that keeps the shape, made of `arguments`, along
/// dimension `axis` of x, counted from the end if negative. Throws `Error`, which calls it `what`,
/// for a dimension that x does not have, or the batch.
template <class Along, class... Arguments>
[[nodiscard]] TensorId along_dimension(LayerBuilder& builder, TensorId x, int axis,
                                       const char* what, Arguments... arguments) {
  const Shape& shape = builder.shape(x);
  const int count = static_cast<int>(shape.size());
  const int chosen = axis < 0 ? axis + count : axis;
  if (chosen < 1 || chosen >= count) {
    fail("`axis` is {}, but the {} of an input of shape {} can be dimensions 1 to {}", axis, what,
         to_string(shape), count - 1);
  }
  if (chosen == count - 1) {
    return builder.apply(std::make_unique<Along>(arguments...), {x});
  }
  // The dimension exchanges its place with the last, and back.
  std::vector<int> exchanged(count);
  std::iota(exchanged.begin(), exchanged.end(), 0);
  std::swap(exchanged[chosen], exchanged.back());
  const TensorId last = builder.apply(std::make_unique<PermuteOperation>(exchanged), {x});
  const TensorId y = builder.apply(std::make_unique<Along>(arguments...), {last});
  return builder.apply(std::make_unique<PermuteOperation>(exchanged), {y});
}

}  // namespace meshwork

// What targets of classes mean, and what cross-entropies and rankings make of one class: written
// once for the kernels of every device.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "runtime/device/host_device.h"
#include "runtime/device/kernels/classes.h"

namespace meshwork {

constexpr float clip_low = 1e-7f;
constexpr float clip_high = 1.0f - 1e-7f;

/// t (1 - s) + s / classes = t keep + add.
struct Smoothing {
  float keep, add;
  MESHWORK_HOST_DEVICE Smoothing operator*(float weight) const {
    return {keep * weight, add * weight};
  }
};
[[nodiscard]] inline Smoothing smoothing_of(const ClassColumns& at) {
  return {1.0f - at.smoothing, at.smoothing == 0.0f
                                   ? 0.0f
                                   : static_cast<float>(static_cast<double>(at.smoothing) /
                                                        static_cast<double>(at.classes))};
}

/// Whether a sparse target is one of so many classes.
[[nodiscard]] MESHWORK_HOST_DEVICE inline bool is_class(std::int64_t target, std::int64_t classes) {
  return target >= 0 && target < classes;
}
/// Of how many classes stand before the target class: whether those are fewer than k. Where there is
/// no target class the number is below 0.
[[nodiscard]] MESHWORK_HOST_DEVICE inline bool is_within(std::int32_t before, std::int64_t k) {
  return before >= 0 && before < k;
}

/// The weights of rows, if they have any.
struct RowWeights {
  RowWeights(const float* of_rows, std::int64_t rows_of_one)
      : weights(of_rows), rows_a_weight(rows_of_one) {}
  RowWeights(const ClassColumns& at, void* const* operands)
      : RowWeights(at.weighted() ? static_cast<const float*>(operands[2]) : nullptr,
                   at.rows_a_weight) {}
  /// What belongs to row r, times the row's weight.
  template <class Value>
  [[nodiscard]] MESHWORK_HOST_DEVICE Value of(std::int64_t r, Value value) const {
    if (weights == nullptr) return value;
    return value * weights[rows_a_weight == 1 ? r : r / rows_a_weight];
  }

  const float* weights;
  std::int64_t rows_a_weight;
};

/// The target weight of a class after smoothing and times the weight of its row, where targets are
/// class numbers: of the class in column j of a row row(r)(j), which is weights(r, j).
struct SparseWeights {
  static constexpr bool given = false;
  struct Row {
    std::int64_t column;  // of the target class, which may be none
    Smoothing smoothing;
    MESHWORK_HOST_DEVICE float operator()(std::int64_t j) const {
      return (j == column ? smoothing.keep : 0.0f) + smoothing.add;
    }
  };
  SparseWeights(const ClassColumns& at, void* const* operands)
      : targets(static_cast<const std::int32_t*>(operands[1])),
        first_class(at.first_class),
        smoothing(smoothing_of(at)),
        of_rows(at, operands) {}
  [[nodiscard]] MESHWORK_HOST_DEVICE Row row(std::int64_t r) const {
    return {targets[r] - first_class, of_rows.of(r, smoothing)};
  }
  MESHWORK_HOST_DEVICE float operator()(std::int64_t r, std::int64_t j) const { return row(r)(j); }

  const std::int32_t* targets;
  std::int64_t first_class;
  Smoothing smoothing;
  RowWeights of_rows;
};
/// The same where the weights before smoothing are given.
struct DenseWeights {
  static constexpr bool given = true;
  struct Row {
    const float* weights;
    Smoothing smoothing;
    MESHWORK_HOST_DEVICE float operator()(std::int64_t j) const {
      return weights[j] * smoothing.keep + smoothing.add;
    }
  };
  DenseWeights(const ClassColumns& at, void* const* operands)
      : targets(static_cast<const float*>(operands[1])),
        columns(at.columns),
        smoothing(smoothing_of(at)),
        of_rows(at, operands) {}
  [[nodiscard]] MESHWORK_HOST_DEVICE Row row(std::int64_t r) const {
    return {targets + r * columns, of_rows.of(r, smoothing)};
  }
  MESHWORK_HOST_DEVICE float operator()(std::int64_t r, std::int64_t j) const { return row(r)(j); }

  const float* targets;
  std::int64_t columns;
  Smoothing smoothing;
  RowWeights of_rows;
};
/// make(std::type_identity<Weights>()) with those of targets of this kind.
auto with_weights(TargetKind kind, const auto& make) {
  return kind == TargetKind::sparse ? make(std::type_identity<SparseWeights>())
                                    : make(std::type_identity<DenseWeights>());
}

// A NaN is not clipped, so that it shows.
[[nodiscard]] MESHWORK_HOST_DEVICE inline bool is_clipped(float q) {
  return q < clip_low || q > clip_high;
}
[[nodiscard]] MESHWORK_HOST_DEVICE inline float clip(float q) {
  return q < clip_low ? clip_low : (q > clip_high ? clip_high : q);
}

/// The cross-entropy of a row from its sums (LogitStatisticsSpec).
[[nodiscard]] MESHWORK_HOST_DEVICE inline double logit_loss(float exponentials, float weighted,
                                                            float weights) {
  return log(static_cast<double>(exponentials)) * static_cast<double>(weights) -
         static_cast<double>(weighted);
}

/// Whether class j comes before the target class, whose score is `value`; it is none itself.
/// Without branches, for loops over many at once.
template <class Index>
[[nodiscard]] MESHWORK_HOST_DEVICE bool is_ahead(float score, float value, Index j, Index target) {
  const bool before =
      (score != score) | (value != value) | (score > value) | ((score == value) & (j < target));
  return before & (j != target);
}

}  // namespace meshwork

// Rows of a table, by their numbers. Bound by memory traffic.
#pragma once

#include "runtime/device/body_forms.h"
#include "runtime/device/kernels/embedding.h"

namespace meshwork::bodies {

struct Embedding {
  const std::int32_t* numbers;
  const float* table;
  float* y;
  std::int64_t columns, first, held;
  struct Row {
    const float* from;  // null: another rank has it
    float* y;
    MESHWORK_HOST_DEVICE void operator()(std::int64_t column, std::int64_t i) const {
      y[i] = from != nullptr ? from[column] : 0.0f;
    }
  };
  [[nodiscard]] MESHWORK_HOST_DEVICE Row row(std::int64_t row) const {
    const std::int64_t at = numbers[row] - first;
    return {0 <= at && at < held ? table + at * columns : nullptr, y};
  }
};

/// The rows of a table that fall to one part of it.
struct EmbeddingGradient {
  const std::int32_t* numbers;
  const float* dy;
  float* dtable;
  std::int64_t rows, columns, first;
  /// dtable of [begin, end) in columns [left, right).
  MESHWORK_HOST_DEVICE void operator()(std::int64_t begin, std::int64_t end, std::int64_t left,
                                       std::int64_t right) const {
    for (std::int64_t at = begin; at < end; ++at) {
      for (std::int64_t j = left; j < right; ++j) dtable[at * columns + j] = 0.0f;
    }
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t at = numbers[row] - first;
      if (at < begin || at >= end) continue;
      for (std::int64_t j = left; j < right; ++j) {
        dtable[at * columns + j] += dy[row * columns + j];
      }
    }
  }
};

template <class Loops>
void add_embedding(auto& kernels) {
  kernels.template add<EmbeddingSpec>([](const EmbeddingSpec& spec, const auto& context) {
    return Loops::grid(context, spec.rows, spec.columns, 8, [=](void* const* operands) {
      return Embedding{at<const std::int32_t>(operands, 0),
                       at(operands, 1),
                       at(operands, 2),
                       spec.columns,
                       spec.first,
                       spec.held};
    });
  });
  kernels.template add<EmbeddingGradientSpec>(
      [](const EmbeddingGradientSpec& spec, const auto& context) {
        return Loops::tiles(context, spec.held, spec.columns, 4, [=](void* const* operands) {
          return EmbeddingGradient{at<const std::int32_t>(operands, 0),
                                   at(operands, 1),
                                   at(operands, 2),
                                   spec.rows,
                                   spec.columns,
                                   spec.first};
        });
      });
}

}  // namespace meshwork::bodies

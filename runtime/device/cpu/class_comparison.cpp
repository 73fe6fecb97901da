// Cross-entropy, its gradient and rankings of rows with all their classes here, in one pass.
//
// The numbers are those of classes.cpp and rows.cpp, term by term in the same order. Only
// probabilities of classes whose logits lie 87 and more below the maximum are 0 here. Rows of up to
// 16 classes go by tiles (row_tiles.h): 64 rows of ten take 2 us, most of it the logarithms in
// double, where the kernels one by one take 13.
#include <cmath>
#include <optional>
#include <utility>

#include "runtime/device/class_functions.h"
#include "runtime/device/cpu/loops.h"
#include "runtime/device/cpu/row_tiles.h"
#include "runtime/device/cpu/vector_math.h"
#include "runtime/device/kernels/classes.h"

namespace meshwork::cpu {

namespace {

/// The operands of one run.
struct Places {
  Places(const ClassComparisonSpec& spec, void* const* operands)
      : operands(operands), x(at(operands, 0)), target(operands[1]) {
    int next = spec.at.behind_targets();
    if (spec.crossentropy != Crossentropy::none) loss = at<double>(operands, next++);
    if (spec.gradient) dx = at(operands, next++);
    numbers = operands + next;
    next += static_cast<int>(spec.within.size());
    if (spec.at.rows == 0) return;
    losses = at<double>(operands, next);
    ahead = reinterpret_cast<std::int32_t*>(losses + spec.at.rows);
  }
  [[nodiscard]] static std::int64_t workspace_bytes(std::int64_t rows) {
    return rows * static_cast<std::int64_t>(sizeof(double) + sizeof(std::int32_t));
  }

  /// The targets, as numbers of classes or as weights.
  template <class Target>
  [[nodiscard]] const Target* targets() const {
    return static_cast<const Target*>(target);
  }

  void* const* operands;
  const float* x;
  const void* target;
  double* loss = nullptr;
  float* dx = nullptr;
  void* const* numbers;
  // In the workspace, by row: its loss, and how many classes stand before the target's, or -1.
  double* losses = nullptr;
  std::int32_t* ahead = nullptr;
};

/// A class that is none of the columns is -1, which none of them is either.
std::int32_t column_of(std::int64_t target, std::int64_t columns) {
  return target < columns ? static_cast<std::int32_t>(target) : -1;
}

// ---- rows in tiles ----------------------------------------------------------------------------

class TileComparison {
 public:
  TileComparison(const ClassComparisonSpec& spec, const Places& places, const TileAt& at)
      : spec_(spec), places_(places), at_(at) {
    load(x_, places.x, at);
    if (spec.at.target == TargetKind::dense) {
      load(targets_, places.targets<float>(), at);
    } else {
      const auto* classes = places.targets<std::int32_t>() + at.first;
      for (int row = 0; row < tile_rows; ++row) {
        right_[row] = row < at.rows ? column_of(classes[row], at.columns) : -1;
      }
    }
  }

  void run() {
    if (spec_.crossentropy != Crossentropy::none) {
      find_weights();
      if (spec_.crossentropy == Crossentropy::of_logits) {
        logits();
      } else {
        probabilities();
      }
    }
    if (!spec_.within.empty()) rank();
  }

 private:
  void find_weights() {
    const Smoothing smoothing = smoothing_of(spec_.at);
    const RowWeights of_rows(spec_.at, places_.operands);
    TileRow<> keep{}, add{};
    for (int row = 0; row < at_.rows; ++row) {
      const Smoothing of_row = of_rows.of(at_.first + row, smoothing);
      keep[row] = of_row.keep;
      add[row] = of_row.add;
    }
    for (std::int32_t j = 0; j < at_.columns; ++j) {
      if (spec_.at.target == TargetKind::dense) {
#pragma omp simd
        for (int row = 0; row < tile_rows; ++row) {
          weights_[j][row] = targets_[j][row] * keep[row] + add[row];
        }
      } else {
#pragma omp simd
        for (int row = 0; row < tile_rows; ++row) {
          weights_[j][row] = (j == right_[row] ? keep[row] : 0.0f) + add[row];
        }
      }
    }
  }

  void logits() {
    const TileRow<> m = maxima(x_, at_.columns);
    Tile e;
    TileRow<double> exponentials{}, weighted{}, weights{};
    for (std::int64_t j = 0; j < at_.columns; ++j) {
#pragma omp simd
      for (int row = 0; row < tile_rows; ++row) e[j][row] = vector_exp_to_one(x_[j][row] - m[row]);
#pragma omp simd
      for (int row = 0; row < tile_rows; ++row) {
        exponentials[row] += static_cast<double>(e[j][row]);
        // A class without weight does not count, also where its logit is -infinity.
        const float t = weights_[j][row];
        const double term = static_cast<double>(t) * static_cast<double>(x_[j][row] - m[row]);
        weighted[row] += t == 0.0f ? 0.0 : term;
        weights[row] += static_cast<double>(t);
      }
    }
    TileRow<> share{};
    for (int row = 0; row < at_.rows; ++row) {
      const auto z0 = static_cast<float>(exponentials[row]), z2 = static_cast<float>(weights[row]);
      places_.losses[at_.first + row] = logit_loss(z0, static_cast<float>(weighted[row]), z2);
      share[row] = z2 / z0;
    }
    if (!spec_.gradient) return;
    for (std::int64_t j = 0; j < at_.columns; ++j) {
#pragma omp simd
      for (int row = 0; row < tile_rows; ++row) {
        e[j][row] = spec_.scale * (e[j][row] * share[row] - weights_[j][row]);
      }
    }
    store(e, places_.dx, at_);
  }

  void probabilities() {
    TileRow<double> sums{}, losses{}, open{};
    for (std::int64_t j = 0; j < at_.columns; ++j) {
#pragma omp simd
      for (int row = 0; row < tile_rows; ++row) sums[row] += static_cast<double>(x_[j][row]);
    }
    TileRow<> total;
#pragma omp simd
    for (int row = 0; row < tile_rows; ++row) total[row] = static_cast<float>(sums[row]);
    for (std::int64_t j = 0; j < at_.columns; ++j) {
#pragma omp simd
      for (int row = 0; row < tile_rows; ++row) {
        const float q = x_[j][row] / total[row], t = weights_[j][row];
        const float term = -t * vector_log(clip(q));
        losses[row] += static_cast<double>(term);
        open[row] += is_clipped(q) ? 0.0 : static_cast<double>(t);
      }
    }
    std::copy_n(losses.begin(), at_.rows, places_.losses + at_.first);
    if (!spec_.gradient) return;
    Tile dx;
    for (std::int64_t j = 0; j < at_.columns; ++j) {
#pragma omp simd
      for (int row = 0; row < tile_rows; ++row) {
        const float share = static_cast<float>(open[row]) / total[row];
        const float own = weights_[j][row] / x_[j][row];
        const bool clipped = is_clipped(x_[j][row] / total[row]);
        dx[j][row] = spec_.scale * (clipped ? share : share - own);
      }
    }
    store(dx, places_.dx, at_);
  }

  void rank() {
    if (spec_.at.target == TargetKind::dense) find_right_classes();
    TileRow<> value{};
    TileRow<std::int32_t> ahead{};
    for (std::int32_t j = 0; j < at_.columns; ++j) {
#pragma omp simd
      for (int row = 0; row < tile_rows; ++row) {
        value[row] = j == right_[row] ? x_[j][row] : value[row];
      }
    }
    for (std::int32_t j = 0; j < at_.columns; ++j) {
#pragma omp simd
      for (int row = 0; row < tile_rows; ++row) {
        ahead[row] += is_ahead(x_[j][row], value[row], j, right_[row]) ? 1 : 0;
      }
    }
    for (int row = 0; row < at_.rows; ++row) {
      places_.ahead[at_.first + row] = right_[row] < 0 ? -1 : ahead[row];
    }
  }

  /// The lowest of the largest weight; NaN equals NaN.
  void find_right_classes() {
    const TileRow<> m = maxima(targets_, at_.columns);
    for (auto j = static_cast<std::int32_t>(at_.columns); j-- > 0;) {
#pragma omp simd
      for (int row = 0; row < tile_rows; ++row) {
        const float t = targets_[j][row];
        right_[row] = is_maximum(t, m[row]) ? j : right_[row];
      }
    }
  }

  const ClassComparisonSpec& spec_;
  const Places& places_;
  const TileAt at_;
  Tile x_, targets_, weights_;
  TileRow<std::int32_t> right_{};  // by row: the column of the target class, or none
};

// ---- rows by themselves -----------------------------------------------------------------------

template <class Weights>
class RowComparison {
 public:
  RowComparison(const ClassComparisonSpec& spec, const Places& places, std::int64_t row)
      : spec_(spec),
        columns_(spec.at.columns),
        weight_(Weights(spec.at, places.operands).row(row)),
        x_(places.x + row * columns_),
        dx_(places.dx == nullptr ? nullptr : places.dx + row * columns_),
        loss_(places.losses[row]),
        ahead_(places.ahead[row]) {}

  /// The gradient, which may take the place of x, comes last.
  void run() {
    if (!spec_.within.empty()) rank();
    if (spec_.crossentropy == Crossentropy::of_logits) logits();
    if (spec_.crossentropy == Crossentropy::of_probabilities) probabilities();
  }

 private:
  void logits() {
    const float* x = x_;
    float* dx = dx_;
    const float m = row_maximum(x, columns_);
    const auto [z1, z2] = weighted_sums(m);
    // Exponentials stay where the gradient will be, if it is wanted.
    const auto z0 = static_cast<float>(
        dx == nullptr
            ? lane_sum(0, columns_, [=](std::int64_t j) { return vector_exp_to_one(x[j] - m); })
            : lane_sum(0, columns_,
                       [=](std::int64_t j) { return dx[j] = vector_exp_to_one(x[j] - m); }));
    loss_ = logit_loss(z0, z1, z2);
    if (!spec_.gradient) return;
    const float share = z2 / z0, scale = spec_.scale;
    const auto& weight = weight_;
#pragma omp simd
    for (std::int64_t j = 0; j < columns_; ++j) dx[j] = scale * (dx[j] * share - weight(j));
  }

  /// The sums over classes of weight * (x - m), and of weights.
  [[nodiscard]] std::pair<float, float> weighted_sums(float m) const {
    const float* x = x_;
    const auto& weight = weight_;
    if constexpr (!Weights::given) {
      // Of one class alone, if there is no smoothing.
      if (weight.smoothing.add == 0.0f) {
        const bool here = 0 <= weight.column && weight.column < columns_;
        if (!here || weight.smoothing.keep == 0.0f) return {0.0f, 0.0f};
        const double keep = weight.smoothing.keep;
        return {static_cast<float>(keep * static_cast<double>(x[weight.column] - m)),
                weight.smoothing.keep};
      }
    }
    return {static_cast<float>(lane_sum(0, columns_,
                                        [&](std::int64_t j) {
                                          const float t = weight(j);
                                          return t == 0.0f ? 0.0
                                                           : static_cast<double>(t) *
                                                                 static_cast<double>(x[j] - m);
                                        })),
            static_cast<float>(lane_sum(0, columns_, [&](std::int64_t j) { return weight(j); }))};
  }

  void probabilities() {
    const float* p = x_;
    const auto& weight = weight_;
    const auto total =
        static_cast<float>(lane_sum(0, columns_, [=](std::int64_t j) { return p[j]; }));
    loss_ = lane_sum(0, columns_,
                     [&](std::int64_t j) { return -weight(j) * vector_log(clip(p[j] / total)); });
    if (!spec_.gradient) return;
    const auto open = static_cast<float>(lane_sum(
        0, columns_, [&](std::int64_t j) { return is_clipped(p[j] / total) ? 0.0f : weight(j); }));
    const float share = open / total, scale = spec_.scale;
    float* dp = dx_;
#pragma omp simd
    for (std::int64_t j = 0; j < columns_; ++j) {
      const float own = weight(j) / p[j];
      dp[j] = scale * (is_clipped(p[j] / total) ? share : share - own);
    }
  }

  void rank() {
    const std::int32_t target = right_class();
    if (target < 0) {
      ahead_ = -1;
      return;
    }
    const float* x = x_;
    const float value = x[target];
    std::int32_t count = 0;
#pragma omp simd reduction(+ : count)
    for (std::int32_t j = 0; j < static_cast<std::int32_t>(columns_); ++j) {
      count += is_ahead(x[j], value, j, target) ? 1 : 0;
    }
    ahead_ = count;
  }

  [[nodiscard]] std::int32_t right_class() const {
    if constexpr (Weights::given) {
      const float* weights = weight_.weights;
      const float m = row_maximum(weights, columns_);
      std::int32_t j = 0;
      while (!is_maximum(weights[j], m)) ++j;
      return j;
    } else {
      return column_of(weight_.column, columns_);
    }
  }

  const ClassComparisonSpec& spec_;
  const std::int64_t columns_;
  const typename Weights::Row weight_;
  const float* x_;
  float* dx_;
  double& loss_;
  std::int32_t& ahead_;
};

// ---- all rows ---------------------------------------------------------------------------------

/// The sums over rows, cut as those of the kernels one by one.
void finish(const ClassComparisonSpec& spec, const Places& places) {
  const std::int64_t rows = spec.at.rows;
  if (places.loss != nullptr) {
    const std::int64_t bytes =
        spec.crossentropy == Crossentropy::of_logits ? 64 : spec.at.columns * 16;
    *places.loss = fixed_sum(1, rows, bytes, [&](std::int64_t begin, std::int64_t end) {
      double sum = 0;
      for (std::int64_t row = begin; row < end; ++row) sum += places.losses[row];
      return sum;
    });
  }
  for (std::size_t i = 0; i < spec.within.size(); ++i) {
    std::int64_t count = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      count += is_within(places.ahead[row], spec.within[i]) ? 1 : 0;
    }
    *at<double>(places.numbers, static_cast<int>(i)) = static_cast<double>(count);
  }
}

KernelPointer compile(const ClassComparisonSpec& spec, const Context& context) {
  const auto body = [=, threads = context.threads](void* const* operands) {
    const Places places(spec, operands);
    if (spec.at.columns <= tile_columns) {
      for_tiles(threads, spec.at.rows, spec.at.columns, spec.at.columns * 16,
                [&](const TileAt& at) { TileComparison(spec, places, at).run(); });
    } else {
      with_weights(spec.at.target, [&]<class Weights>(std::type_identity<Weights>) {
        for_rows(threads, spec.at.rows, spec.at.columns * 16,
                 [&](std::int64_t row) { RowComparison<Weights>(spec, places, row).run(); });
      });
    }
    finish(spec, places);
  };
  return make_kernel(body, Places::workspace_bytes(spec.at.rows));
}

}  // namespace

void add_class_comparison(Kernels& kernels) {
  kernels.add<ClassComparisonSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cpu

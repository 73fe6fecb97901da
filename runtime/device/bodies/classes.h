// Of this rank's columns of class scores: gradients of cross-entropy, and ranking. Bound by memory
// traffic.
#pragma once

#include "runtime/device/bodies/masks.h"
#include "runtime/device/body_forms.h"
#include "runtime/device/class_functions.h"
#include "runtime/device/folds.h"

namespace meshwork::bodies {

template <class Math, class Weights>
struct LogitGradient {
  const float *x, *m, *z;
  float* dx;
  float scale;
  Weights weights;
  [[nodiscard]] MESHWORK_HOST_DEVICE auto row(std::int64_t r) const {
    return [weight = weights.row(r), m = m[r], share = z[3 * r + 2] / z[3 * r], scale = scale,
            x = x, dx = dx](std::int64_t j, std::int64_t i) {
      dx[i] = scale * (Math::exp(x[i] - m) * share - weight(j));
    };
  }
};
template <class Weights>
struct ProbabilityGradient {
  const float *p, *s, *u;
  float* dp;
  float scale;
  Weights weights;
  [[nodiscard]] MESHWORK_HOST_DEVICE auto row(std::int64_t r) const {
    return [weight = weights.row(r), total = s[r], share = u[r] / s[r], scale = scale, p = p,
            dp = dp](std::int64_t j, std::int64_t i) {
      const float own = weight(j) / p[i];
      dp[i] = scale * (is_clipped(p[i] / total) ? share : share - own);
    };
  }
};

struct TargetValue {
  const float* x;
  const std::int32_t* targets;
  float* v;
  std::int64_t first_class, columns;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t row) const {
    const std::int64_t column = targets[row] - first_class;
    v[row] = column >= 0 && column < columns ? x[row * columns + column] : 0.0f;
  }
};
struct CountAhead {
  using Fold = folds::Added<std::int64_t>;
  const float* x;
  const std::int32_t* targets;
  const float* v;
  std::int32_t* c;
  std::int64_t first_class, classes;
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t term(std::int64_t row, std::int64_t j,
                                                       std::int64_t i) const {
    return is_ahead(x[i], v[row], j, targets[row] - first_class) ? 1 : 0;
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t row, std::int64_t count) const {
    c[row] = is_class(targets[row], classes) ? static_cast<std::int32_t>(count) : -1;
  }
};
struct IsBelow {
  const std::int32_t* c;
  std::int64_t bound;
  MESHWORK_HOST_DEVICE double operator()(std::int64_t row) const {
    return is_within(c[row], bound) ? 1.0 : 0.0;
  }
};
struct FirstMaximum {
  using Fold = folds::First;
  const float *x, *m;
  std::int32_t* index;
  std::int64_t first_class, columns, classes;
  [[nodiscard]] MESHWORK_HOST_DEVICE bool term(std::int64_t row, std::int64_t,
                                               std::int64_t i) const {
    return is_maximum(x[i], m[row]);
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t row, std::int64_t j) const {
    index[row] = static_cast<std::int32_t>(j < columns ? first_class + j : classes);
  }
};

template <RowClass of_row>
struct RowWeight {
  const void* target;
  const float* table;
  std::int64_t classes, columns;  // classes in the table
  RowWeights of_rows;
  RowMask mask;
  const double* counted;  // beside a mask
  double rows_in_all;
  float* y;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t row) const {
    const std::int64_t number = class_of(row);
    const float weight = is_class(number, classes) ? table[number] : 1.0f;
    y[row] = mask.counts(row) ? of_rows.of(row, weight * share()) : 0.0f;
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE float share() const {
    if (counted == nullptr) return 1.0f;
    return *counted > 0 ? static_cast<float>(rows_in_all / *counted) : 0.0f;
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t class_of(std::int64_t row) const {
    if constexpr (of_row == RowClass::none) {
      return -1;
    } else if constexpr (of_row == RowClass::number) {
      return static_cast<const std::int32_t*>(target)[row];
    } else {
      const float* t = static_cast<const float*>(target) + row * columns;
      if constexpr (of_row == RowClass::binary) {
        return *t > 0.5f ? 1 : 0;
      } else {
        std::int64_t largest = 0;
        for (std::int64_t j = 1; j < columns; ++j) largest = t[j] > t[largest] ? j : largest;
        return largest;
      }
    }
  }
};
template <class Loops, RowClass of_row>
auto row_weight(const RowWeightSpec& spec, const auto& context) {
  return Loops::elements(
      context, spec.rows, 4 * spec.columns + 4,
      [columns = spec.columns, rows_a_weight = spec.rows_a_weight, rows_a_mask = spec.rows_a_mask,
       rows_in_all = spec.rows_in_all, classes = static_cast<std::int64_t>(spec.table.size()),
       table = Loops::table(context, spec.table.empty() ? std::vector<float>{1} : spec.table)](
          void* const* operands) {
        const void* weights = table->data();
        int next = 0;
        const void* target = of_row != RowClass::none ? operands[next++] : nullptr;
        const float* of_rows = rows_a_weight > 0 ? at<const float>(operands, next++) : nullptr;
        const float* mask = rows_a_mask > 0 ? at<const float>(operands, next++) : nullptr;
        const double* counted = rows_a_mask > 0 ? at<const double>(operands, next++) : nullptr;
        return RowWeight<of_row>{target,
                                 static_cast<const float*>(weights),
                                 classes,
                                 columns,
                                 {of_rows, rows_a_weight},
                                 {mask, rows_a_mask},
                                 counted,
                                 rows_in_all,
                                 at(operands, next)};
      });
}

template <class Loops>
void add_classes(auto& kernels) {
  kernels.template add<LogitGradientSpec>([](const LogitGradientSpec& spec, const auto& context) {
    return with_weights(spec.at.target, [&]<class Weights>(std::type_identity<Weights>) {
      return Loops::grid(context, spec.at.rows, spec.at.columns, 16, [=](void* const* operands) {
        void* const* others = operands + spec.at.behind_targets();
        return LogitGradient<typename Loops::Math, Weights>{
            at(operands, 0), at(others, 0), at(others, 1),
            at(others, 2),   spec.scale,    Weights(spec.at, operands)};
      });
    });
  });
  kernels.template add<ProbabilityGradientSpec>([](const ProbabilityGradientSpec& spec,
                                                   const auto& context) {
    return with_weights(spec.at.target, [&]<class Weights>(std::type_identity<Weights>) {
      return Loops::grid(context, spec.at.rows, spec.at.columns, 16, [=](void* const* operands) {
        void* const* others = operands + spec.at.behind_targets();
        return ProbabilityGradient<Weights>{at(operands, 0), at(others, 0),
                                            at(others, 1),   at(others, 2),
                                            spec.scale,      Weights(spec.at, operands)};
      });
    });
  });
  kernels.template add<RowWeightSpec>([](const RowWeightSpec& spec, const auto& context) {
    switch (spec.of_row) {
      case RowClass::none:
        return row_weight<Loops, RowClass::none>(spec, context);
      case RowClass::largest:
        return row_weight<Loops, RowClass::largest>(spec, context);
      case RowClass::binary:
        return row_weight<Loops, RowClass::binary>(spec, context);
      default:
        return row_weight<Loops, RowClass::number>(spec, context);
    }
  });
  kernels.template add<TargetValueSpec>([](const TargetValueSpec& spec, const auto& context) {
    return Loops::elements(
        context, spec.at.rows, 12, [at_columns = spec.at](void* const* operands) {
          return TargetValue{at(operands, 0), at<const std::int32_t>(operands, 1), at(operands, 2),
                             at_columns.first_class, at_columns.columns};
        });
  });
  kernels.template add<CountAheadSpec>([](const CountAheadSpec& spec, const auto& context) {
    return Loops::rows(
        context, spec.at.rows, spec.at.columns, 4, [at_columns = spec.at](void* const* operands) {
          return CountAhead{at(operands, 0),        at<const std::int32_t>(operands, 1),
                            at(operands, 2),        at<std::int32_t>(operands, 3),
                            at_columns.first_class, at_columns.classes};
        });
  });
  kernels.template add<CountBelowSpec>([](const CountBelowSpec& spec, const auto& context) {
    return Loops::sum(context, spec.rows, 4, 2, 1.0, [k = spec.k](void* const* operands) {
      return IsBelow{at<const std::int32_t>(operands, 0), k};
    });
  });
  kernels.template add<FirstMaximumSpec>([](const FirstMaximumSpec& spec, const auto& context) {
    return Loops::rows(
        context, spec.at.rows, spec.at.columns, 4, [at_columns = spec.at](void* const* operands) {
          return FirstMaximum{
              at(operands, 0),        at(operands, 1),    at<std::int32_t>(operands, 2),
              at_columns.first_class, at_columns.columns, at_columns.classes};
        });
  });
}

}  // namespace meshwork::bodies

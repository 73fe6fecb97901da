// Kernels over this rank's columns of class scores: cross-entropy and its gradients, ranking.
// Where a rank has all columns, class_comparison.cpp does the same in one pass.
#include <cmath>

#include "runtime/device/cpu/class_weights.h"
#include "runtime/device/cpu/loops.h"
#include "runtime/device/cpu/vector_math.h"
#include "runtime/device/kernels/classes.h"

namespace meshwork::cpu {

namespace {

/// A kernel that calls body(operands, row, weights of the row) for each row. Targets: operand 1.
template <class Body>
KernelPointer for_target_rows(const ClassColumns& columns, const Context& context, Body body) {
  const auto make = [&]<class Weights>() {
    return make_kernel([=, threads = context.threads](void* const* operands) {
      const auto* targets = at<const typename Weights::Target>(operands, 1);
      for_rows(threads, columns.rows, columns.columns * 16,
               [=](std::int64_t row) { body(operands, row, Weights(columns, targets, row)); });
    });
  };
  return columns.target == TargetKind::sparse ? make.template operator()<SparseWeights>()
                                              : make.template operator()<DenseWeights>();
}

// ---- from logits ------------------------------------------------------------------------------

KernelPointer compile(const LogitStatisticsSpec& spec, const Context& context) {
  const auto body = [columns = spec.at.columns](void* const* operands, std::int64_t row,
                                                const auto& weight) {
    const float* x = at(operands, 0) + row * columns;
    const float m = at(operands, 2)[row];
    float* z = at(operands, 3) + row * 3;
    z[0] = static_cast<float>(
        lane_sum(0, columns, [=](std::int64_t j) { return vector_exp(x[j] - m); }));
    z[1] = static_cast<float>(lane_sum(0, columns, [&](std::int64_t j) {
      // A class without weight does not count, also where its logit is -infinity.
      const float t = weight(j);
      return t == 0.0f ? 0.0 : static_cast<double>(t) * static_cast<double>(x[j] - m);
    }));
    z[2] = static_cast<float>(lane_sum(0, columns, [&](std::int64_t j) { return weight(j); }));
  };
  return for_target_rows(spec.at, context, body);
}

KernelPointer compile(const LogitLossSpec& spec, const Context& context) {
  return make_kernel([=, threads = context.threads](void* const* operands) {
    const float* z = at(operands, 0);
    const auto rows_sum = [=](std::int64_t begin, std::int64_t end) {
      double sum = 0;
      for (std::int64_t row = begin; row < end; ++row) {
        const float* of_row = z + 3 * row;
        sum += std::log(static_cast<double>(of_row[0])) * static_cast<double>(of_row[2]) -
               static_cast<double>(of_row[1]);
      }
      return sum;
    };
    *at<double>(operands, 1) = fixed_sum(threads, spec.rows, 64, rows_sum);
  });
}

KernelPointer compile(const LogitGradientSpec& spec, const Context& context) {
  const auto body = [columns = spec.at.columns, scale = spec.scale](
                        void* const* operands, std::int64_t row, const auto& weight) {
    const float* x = at(operands, 0) + row * columns;
    const float m = at(operands, 2)[row];
    const float* z = at(operands, 3) + row * 3;
    float* dx = at(operands, 4) + row * columns;
    const float share = z[2] / z[0];
#pragma omp simd
    for (std::int64_t j = 0; j < columns; ++j) {
      dx[j] = scale * (vector_exp(x[j] - m) * share - weight(j));
    }
  };
  return for_target_rows(spec.at, context, body);
}

// ---- from probabilities -----------------------------------------------------------------------

KernelPointer compile(const ProbabilityLossSpec& spec, const Context& context) {
  const ClassColumns at_columns = spec.at;
  const auto make = [&]<class Weights>() {
    return make_kernel([=, threads = context.threads](void* const* operands) {
      const std::int64_t columns = at_columns.columns;
      const float* p = at(operands, 0);
      const auto* targets = at<const typename Weights::Target>(operands, 1);
      const float* s = at(operands, 2);
      float* u = at(operands, 4);
      const auto rows_sum = [=](std::int64_t begin, std::int64_t end) {
        double sum = 0;
        for (std::int64_t row = begin; row < end; ++row) {
          const Weights weight(at_columns, targets, row);
          const float* of_row = p + row * columns;
          const float total = s[row];
          sum += lane_sum(0, columns, [&](std::int64_t j) {
            return -weight(j) * vector_log(clip(of_row[j] / total));
          });
          u[row] = static_cast<float>(lane_sum(0, columns, [&](std::int64_t j) {
            return is_clipped(of_row[j] / total) ? 0.0f : weight(j);
          }));
        }
        return sum;
      };
      *at<double>(operands, 3) = fixed_sum(threads, at_columns.rows, columns * 16, rows_sum);
    });
  };
  return at_columns.target == TargetKind::sparse ? make.template operator()<SparseWeights>()
                                                 : make.template operator()<DenseWeights>();
}

KernelPointer compile(const ProbabilityGradientSpec& spec, const Context& context) {
  const auto body = [columns = spec.at.columns, scale = spec.scale](
                        void* const* operands, std::int64_t row, const auto& weight) {
    const float* p = at(operands, 0) + row * columns;
    const float total = at(operands, 2)[row];
    const float share = at(operands, 3)[row] / total;
    float* dp = at(operands, 4) + row * columns;
#pragma omp simd
    for (std::int64_t j = 0; j < columns; ++j) {
      const float q = p[j] / total;
      const float own = weight(j) / p[j];
      dp[j] = scale * (is_clipped(q) ? share : share - own);
    }
  };
  return for_target_rows(spec.at, context, body);
}

// ---- ranking ----------------------------------------------------------------------------------

KernelPointer compile(const TargetValueSpec& spec, const Context& context) {
  return make_kernel([=, here = spec.at, threads = context.threads](void* const* operands) {
    const float* x = at(operands, 0);
    const auto* targets = at<const std::int32_t>(operands, 1);
    float* v = at(operands, 2);
    for_rows(threads, here.rows, 12, [=](std::int64_t row) {
      const std::int64_t column = targets[row] - here.first_class;
      const bool mine = column >= 0 && column < here.columns;
      v[row] = mine ? x[row * here.columns + column] : 0.0f;
    });
  });
}

KernelPointer compile(const CountAheadSpec& spec, const Context& context) {
  return make_kernel([=, here = spec.at, threads = context.threads](void* const* operands) {
    const float* x = at(operands, 0);
    const auto* targets = at<const std::int32_t>(operands, 1);
    const float* v = at(operands, 2);
    auto* c = at<std::int32_t>(operands, 3);
    for_rows(threads, here.rows, here.columns * 4, [=](std::int64_t row) {
      const float* of_row = x + row * here.columns;
      const std::int64_t target = targets[row] - here.first_class;
      const float value = v[row];
      std::int64_t count = 0;
#pragma omp simd reduction(+ : count)
      for (std::int64_t j = 0; j < here.columns; ++j) {
        const bool ahead = is_nan(of_row[j]) | is_nan(value) | (of_row[j] > value) |
                           ((of_row[j] == value) & (j < target));
        count += static_cast<std::int64_t>(ahead & (j != target));
      }
      c[row] = static_cast<std::int32_t>(count);
    });
  });
}

KernelPointer compile(const CountBelowSpec& spec, const Context&) {
  return make_kernel([=](void* const* operands) {
    const auto* c = at<const std::int32_t>(operands, 0);
    std::int64_t count = 0;
#pragma omp simd reduction(+ : count)
    for (std::int64_t row = 0; row < spec.rows; ++row) {
      count += static_cast<std::int64_t>(c[row] < spec.k);
    }
    *at<double>(operands, 1) = static_cast<double>(count);
  });
}

KernelPointer compile(const FirstMaximumSpec& spec, const Context& context) {
  return make_kernel([=, here = spec.at, threads = context.threads](void* const* operands) {
    const float* x = at(operands, 0);
    const float* m = at(operands, 1);
    auto* index = at<std::int32_t>(operands, 2);
    for_rows(threads, here.rows, here.columns * 4, [=](std::int64_t row) {
      const float* of_row = x + row * here.columns;
      const float maximum = m[row];
      std::int64_t j = 0;
      while (j < here.columns && of_row[j] != maximum && !(is_nan(of_row[j]) && is_nan(maximum))) {
        ++j;
      }
      index[row] =
          static_cast<std::int32_t>(j < here.columns ? here.first_class + j : here.classes);
    });
  });
}

}  // namespace

void add_classes(Kernels& kernels) {
  kernels.add<LogitStatisticsSpec, LogitLossSpec, LogitGradientSpec, ProbabilityLossSpec,
              ProbabilityGradientSpec, TargetValueSpec, CountAheadSpec, CountBelowSpec,
              FirstMaximumSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cpu

// Cross-entropy of this rank's columns of class scores; what else is done with them are bodies
// (bodies/classes.h). Where a rank has all columns, class_comparison.cpp does the same in one pass.
#include "runtime/device/class_functions.h"
#include "runtime/device/cpu/loops.h"
#include "runtime/device/cpu/vector_math.h"

namespace meshwork::cpu {

namespace {

KernelPointer compile(const LogitStatisticsSpec& spec, const Context& context) {
  return with_weights(spec.at.target, [&]<class Weights>(std::type_identity<Weights>) {
    return make_kernel([=, here = spec.at, threads = context.threads](void* const* operands) {
      const Weights weights(here, operands);
      void* const* others = operands + here.behind_targets();
      for_rows(threads, here.rows, here.columns * 16, [=](std::int64_t row) {
        const std::int64_t columns = here.columns;
        const auto weight = weights.row(row);
        const float* x = at(operands, 0) + row * columns;
        const float m = at(others, 0)[row];
        float* z = at(others, 1) + row * 3;
        z[0] = static_cast<float>(
            lane_sum(0, columns, [=](std::int64_t j) { return vector_exp_to_one(x[j] - m); }));
        z[1] = static_cast<float>(lane_sum(0, columns, [&](std::int64_t j) {
          // A class without weight does not count, also where its logit is -infinity.
          const float t = weight(j);
          return t == 0.0f ? 0.0 : static_cast<double>(t) * static_cast<double>(x[j] - m);
        }));
        z[2] = static_cast<float>(lane_sum(0, columns, weight));
      });
    });
  });
}

KernelPointer compile(const LogitLossSpec& spec, const Context& context) {
  return make_kernel([=, threads = context.threads](void* const* operands) {
    const float* z = at(operands, 0);
    const auto rows_sum = [=](std::int64_t begin, std::int64_t end) {
      double sum = 0;
      for (std::int64_t row = begin; row < end; ++row) {
        sum += logit_loss(z[3 * row], z[3 * row + 1], z[3 * row + 2]);
      }
      return sum;
    };
    *at<double>(operands, 1) = fixed_sum(threads, spec.rows, 64, rows_sum);
  });
}

KernelPointer compile(const ProbabilityLossSpec& spec, const Context& context) {
  return with_weights(spec.at.target, [&]<class Weights>(std::type_identity<Weights>) {
    return make_kernel([=, here = spec.at, threads = context.threads](void* const* operands) {
      const std::int64_t columns = here.columns;
      const float* p = at(operands, 0);
      const Weights weights(here, operands);
      void* const* others = operands + here.behind_targets();
      const float* s = at(others, 0);
      float* u = at(others, 2);
      const auto rows_sum = [=](std::int64_t begin, std::int64_t end) {
        double sum = 0;
        for (std::int64_t row = begin; row < end; ++row) {
          const auto weight = weights.row(row);
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
      *at<double>(others, 1) = fixed_sum(threads, here.rows, columns * 16, rows_sum);
    });
  });
}

}  // namespace

void add_classes(Kernels& kernels) {
  kernels.add<LogitStatisticsSpec, LogitLossSpec, ProbabilityLossSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cpu

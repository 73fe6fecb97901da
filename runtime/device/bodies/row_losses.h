// Losses of rows as functions (kernels/row_losses.h), for the loops of any device. Bound by memory
// traffic.
#pragma once

#include "runtime/device/body_forms.h"
#include "runtime/device/class_functions.h"
#include "runtime/device/folds.h"
#include "runtime/device/kernels/row_losses.h"

namespace meshwork::bodies {

/// Where what is known of rows stands: operands `first`, and the two behind it.
template <class Function>
struct RowStates {
  const float* maxima;
  const double *sums, *further;
  RowStates(void* const* operands, int first)
      : maxima(at(operands, first)),
        sums(at<const double>(operands, first + 1)),
        further(at<const double>(operands, first + 2)) {}
  [[nodiscard]] MESHWORK_HOST_DEVICE RowState operator()(std::int64_t row) const {
    return {Function::has_maximum ? maxima[row] : 0.0f, sums + row * Function::sums,
            further + row * Function::further};
  }
};
template <class Math, class Function>
struct RowScores {
  using Fold = folds::Maximum;
  const float *p, *t;
  float* m;
  Function function;
  [[nodiscard]] MESHWORK_HOST_DEVICE float term(std::int64_t, std::int64_t, std::int64_t i) const {
    return function.template score<Math>(p[i], t[i]);
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t row, float value) const { m[row] = value; }
};
template <class Math, class Function, bool more>
struct RowTerms {
  static constexpr int count = more ? Function::further : Function::sums;
  using Fold = folds::Added<Sums<count>>;
  const float *p, *t;
  RowStates<Function> states;
  double* to;
  Function function;
  [[nodiscard]] MESHWORK_HOST_DEVICE Sums<count> term(std::int64_t row, std::int64_t,
                                                      std::int64_t i) const {
    if constexpr (more) {
      return function.template more_terms<Math>(p[i], t[i], states(row));
    } else {
      return function.template terms<Math>(p[i], t[i], states(row));
    }
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t row, const Sums<count>& sums) const {
    for (int k = 0; k < count; ++k) to[row * count + k] = sums.values[k];
  }
};
template <class Function>
struct LossOfRow {
  RowStates<Function> states;
  RowWeights weights;
  Function function;
  MESHWORK_HOST_DEVICE double operator()(std::int64_t row) const {
    return weights.of(row, function.loss(states(row)));
  }
};
template <class Math, class Function>
struct RowSlopes {
  const float *p, *t;
  RowStates<Function> states;
  RowWeights weights;
  float* dp;
  float scale;
  Function function;
  struct Row {
    const RowSlopes& all;
    RowState state;
    float factor;
    MESHWORK_HOST_DEVICE void operator()(std::int64_t, std::int64_t i) const {
      all.dp[i] = factor * all.function.template slope<Math>(all.p[i], all.t[i], state);
    }
  };
  [[nodiscard]] MESHWORK_HOST_DEVICE Row row(std::int64_t r) const {
    return {*this, states(r), weights.of(r, scale)};
  }
};

template <class Loops, class Function, bool more>
void add_row_sums(auto& kernels) {
  using Spec = RowSumsSpec<Function, more>;
  kernels.template add<Spec>([](const Spec& spec, const auto& context) {
    return Loops::rows(
        context, spec.rows, spec.columns, 8, [function = spec.function](void* const* operands) {
          return RowTerms<typename Loops::Math, Function, more>{at(operands, 0),
                                                                at(operands, 1),
                                                                {operands, 2},
                                                                at<double>(operands, more ? 4 : 3),
                                                                function};
        });
  });
}

template <class Loops, class Function>
void add_row_slopes(auto& kernels) {
  using Math = typename Loops::Math;
  using Slope = RowSlopeSpec<Function>;
  kernels.template add<Slope>([](const Slope& spec, const auto& context) {
    const bool weighted = spec.rows_a_weight > 0;
    return Loops::grid(context, spec.rows, spec.columns, 12, [=](void* const* operands) {
      return RowSlopes<Math, Function>{at(operands, 0),
                                       at(operands, 1),
                                       {operands, 2},
                                       {weighted ? at(operands, 5) : nullptr, spec.rows_a_weight},
                                       at(operands, weighted ? 6 : 5),
                                       spec.scale,
                                       spec.function};
    });
  });
}

template <class Loops, class Function>
void add_row_loss(auto& kernels) {
  using Math = typename Loops::Math;
  if constexpr (Function::has_maximum) {
    using Score = RowScoreSpec<Function>;
    kernels.template add<Score>([](const Score& spec, const auto& context) {
      return Loops::rows(context, spec.rows, spec.columns, 8,
                         [function = spec.function](void* const* operands) {
                           return RowScores<Math, Function>{at(operands, 0), at(operands, 1),
                                                            at(operands, 2), function};
                         });
    });
  }
  add_row_sums<Loops, Function, false>(kernels);
  if constexpr (Function::further > 0) add_row_sums<Loops, Function, true>(kernels);
  using Loss = RowLossSpec<Function>;
  kernels.template add<Loss>([](const Loss& spec, const auto& context) {
    const bool weighted = spec.rows_a_weight > 0;
    return Loops::sum(context, spec.rows, 8 * (Function::sums + Function::further),
                      weighted ? 5 : 4, 1.0, [=](void* const* operands) {
                        return LossOfRow<Function>{
                            {operands, 0},
                            {weighted ? at(operands, 3) : nullptr, spec.rows_a_weight},
                            spec.function};
                      });
  });
  if constexpr (Function::has_slope) add_row_slopes<Loops, Function>(kernels);
}

template <class Loops>
void add_row_losses(auto& kernels) {
  EveryRowLoss::each(
      [&]<class Function>(const Function&) { add_row_loss<Loops, Function>(kernels); });
}

}  // namespace meshwork::bodies

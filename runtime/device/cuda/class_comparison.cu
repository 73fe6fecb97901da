// Cross-entropy, its gradient and rankings of rows with all their classes here.
//
// A warp or a block a row goes over it three times, which the first time brings it into the cache:
// its maximum, the sums behind loss and rank, the gradient. Rows leave their loss and rank in the
// workspace, and the last block to be done adds them up: one launch for what are seven as the
// kernels of classes.cu and rows.cu. Many rows are added up by launches of their own, in parts.
#include "runtime/device/body_kernel.h"
#include "runtime/device/class_functions.h"
#include "runtime/device/cuda/class_sums.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/sums.h"
#include "runtime/device/kernels/classes.h"

namespace meshwork::cuda {

namespace {

/// Up to this many rankings are added up in the launch that finds them.
constexpr int most_rankings = 4;

template <class Weights>
struct CompareRow {
  const float* x;
  float* dx;
  double* losses;        // by row
  std::int32_t* before;  // by row: how many classes stand before the target class, or -1
  std::int64_t width;
  Crossentropy crossentropy;
  float scale;
  Weights weight;

  template <class Team>
  MESHWORK_DEVICE void operator()(std::int64_t row, const Team& team) const {
    // The gradient, which may take the place of x, comes last.
    if (before != nullptr) rank(row, team);
    if (crossentropy == Crossentropy::of_logits) logits(row, team);
    if (crossentropy == Crossentropy::of_probabilities) probabilities(row, team);
  }

  template <class Team>
  MESHWORK_DEVICE void logits(std::int64_t row, const Team& team) const {
    const float* of_row = x + row * width;
    const auto of_class = weight.row(row);
    const float m = maximum(of_row, team);
    const ThreeSums z = team.template reduce<folds::Added<ThreeSums>>(
        width, [&](std::int64_t j) { return logit_terms(of_row[j] - m, of_class(j)); });
    const float z0 = static_cast<float>(z.exponentials), z2 = static_cast<float>(z.weights);
    if (team.leads()) losses[row] = logit_loss(z0, static_cast<float>(z.weighted), z2);
    if (dx == nullptr) return;
    const float share = z2 / z0;
    team.each(width, [&](std::int64_t j) {
      dx[row * width + j] = scale * (expf(of_row[j] - m) * share - of_class(j));
    });
  }

  template <class Team>
  MESHWORK_DEVICE void probabilities(std::int64_t row, const Team& team) const {
    const float* of_row = x + row * width;
    const auto of_class = weight.row(row);
    const float total = static_cast<float>(team.template reduce<folds::Sum>(
        width, [&](std::int64_t j) { return static_cast<double>(of_row[j]); }));
    const TwoSums sums = team.template reduce<folds::Added<TwoSums>>(
        width, [&](std::int64_t j) { return probability_terms(of_row[j] / total, of_class(j)); });
    if (team.leads()) losses[row] = sums.loss;
    if (dx == nullptr) return;
    const float share = static_cast<float>(sums.open) / total;
    team.each(width, [&](std::int64_t j) {
      const float own = of_class(j) / of_row[j];
      dx[row * width + j] = scale * (is_clipped(of_row[j] / total) ? share : share - own);
    });
  }

  template <class Team>
  MESHWORK_DEVICE void rank(std::int64_t row, const Team& team) const {
    const float* of_row = x + row * width;
    const std::int64_t target = right_class(row, team);
    const bool is_one = is_class(target, width);
    const float value = is_one ? of_row[target] : 0.0f;
    const std::int32_t count =
        team.template reduce<folds::Added<std::int32_t>>(width, [&](std::int64_t j) {
          return std::int32_t{is_ahead(of_row[j], value, j, target) ? 1 : 0};
        });
    if (team.leads()) before[row] = is_one ? count : -1;
  }

  /// Of weights: the lowest of the largest, NaN equal to NaN.
  template <class Team>
  MESHWORK_DEVICE std::int64_t right_class(std::int64_t row, const Team& team) const {
    if constexpr (Weights::given) {
      const float* weights = weight.targets + row * width;
      const float m = maximum(weights, team);
      return team.template reduce<folds::First>(width, [&](std::int64_t j) {
        return is_maximum(weights[j], m) ? j : folds::First::identity();
      });
    } else {
      return weight.targets[row];
    }
  }

  template <class Team>
  MESHWORK_DEVICE float maximum(const float* values, const Team& team) const {
    return team.template reduce<folds::Maximum>(width, [&](std::int64_t j) { return values[j]; });
  }
};

struct RowLosses {
  const double* losses;
  MESHWORK_HOST_DEVICE double operator()(std::int64_t row) const { return losses[row]; }
};
struct RowsWithin {
  const std::int32_t* before;
  std::int64_t k;
  MESHWORK_HOST_DEVICE double operator()(std::int64_t row) const {
    return is_within(before[row], k) ? 1.0 : 0.0;
  }
};

/// Adds up what rows have left.
struct AddUp {
  std::int64_t rows;
  const double* losses;
  double* loss;  // null without a loss
  const std::int32_t* before;
  int rankings;
  std::int64_t k[most_rankings];
  double* numbers[most_rankings];

  template <class Team>
  MESHWORK_DEVICE void operator()(const Team& team) const {
    if (loss != nullptr) {
      const double total = team.template reduce<folds::Sum>(rows, RowLosses{losses});
      if (team.leads()) *loss = total;
    }
    for (int i = 0; i < rankings; ++i) {
      const double total = team.template reduce<folds::Sum>(rows, RowsWithin{before, k[i]});
      if (team.leads()) *numbers[i] = total;
    }
  }
};

KernelPointer compile(const ClassComparisonSpec& spec, const Context& context) {
  const std::int64_t rows = spec.at.rows;
  const SumParts parts(rows);
  const int rankings = static_cast<int>(spec.within.size());
  const bool at_once = parts.parts == 1 && rankings <= most_rankings;
  const unsigned none = 0;
  const auto done = context.upload(&none, sizeof none);

  const auto doubles = static_cast<std::int64_t>(sizeof(double));
  const auto ranks = static_cast<std::int64_t>(sizeof(std::int32_t));
  const std::int64_t workspace = rows > 0 ? (rows + parts.parts) * doubles + rows * ranks : 0;
  return with_weights(spec.at.target, [&]<class Weights>(std::type_identity<Weights>) {
    return make_kernel(
        [=, launcher = context.launcher](void* const* operands) {
          int next = spec.at.behind_targets();
          const bool has_loss = spec.crossentropy != Crossentropy::none;
          double* loss = has_loss ? at<double>(operands, next++) : nullptr;
          float* dx = spec.gradient ? at(operands, next++) : nullptr;
          void* const* numbers = operands + next;
          // The workspace holds losses and ranks by row, then partial sums.
          double* losses = rows > 0 ? at<double>(operands, next + rankings) : nullptr;
          double* partial = losses + rows;
          auto* before = rankings > 0 && rows > 0
                             ? reinterpret_cast<std::int32_t*>(partial + parts.parts)
                             : nullptr;
          const CompareRow<Weights> compare{at(operands, 0), dx,
                                            losses,          before,
                                            spec.at.columns, spec.crossentropy,
                                            spec.scale,      Weights(spec.at, operands)};
          if (at_once) {
            AddUp add{rows, losses, loss, before, rankings, {}, {}};
            for (int i = 0; i < rankings; ++i) {
              add.k[i] = spec.within[static_cast<std::size_t>(i)];
              add.numbers[i] = at<double>(numbers, i);
            }
            for_teams_then(launcher, rows, spec.at.columns, compare, add,
                           static_cast<unsigned*>(done->data()));
            return;
          }
          for_teams(launcher, rows, spec.at.columns, compare);
          if (loss != nullptr)
            sum_all(launcher, parts, RowLosses{losses}, ScaledTo{loss, 1.0}, partial);
          for (int i = 0; i < rankings; ++i) {
            sum_all(launcher, parts, RowsWithin{before, spec.within[static_cast<std::size_t>(i)]},
                    ScaledTo{at<double>(numbers, i), 1.0}, partial);
          }
        },
        workspace);
  });
}

}  // namespace

void add_class_comparison(Kernels& kernels) {
  kernels.add<ClassComparisonSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cuda

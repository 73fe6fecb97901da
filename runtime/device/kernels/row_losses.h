// Losses of rows, as functions: what a row of predictions gives follows from sums over its values.
//
// A function of predictions p and targets t, both of `columns` values a row, has a `name` and
//
//   has_maximum   whether the largest score(p, t) of a row is worked out first
//   sums          how many sums of each row follow: terms(p, t, row)
//   further       how many sums that need these: more_terms(p, t, row)
//   loss(row)     what the row gives
//   has_slope     whether it has slope(p, t, row), the derivative of that by p: losses have
//
// with `row` what is known of the row so far. For each follow a kernel for each step, because the
// values of a row may lie on several ranks: between two steps these are reduced over them. Sums are
// float64. One more loss is one more function, in the list at the end.
//
// Of (rows, columns) on this rank: p, t, dp. Of (rows): weights, one for each `rows_a_weight`.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "runtime/device/host_device.h"
#include "runtime/device/kernels/page.h"
#include "runtime/device/kernels/value_losses.h"

namespace meshwork {

/// Several sums at once.
template <int count>
struct Sums {
  double values[count];
  [[nodiscard]] MESHWORK_HOST_DEVICE Sums operator+(const Sums& other) const {
    Sums sum;
    for (int i = 0; i < count; ++i) sum.values[i] = values[i] + other.values[i];
    return sum;
  }
};

/// What is known of a row.
struct RowState {
  float maximum;
  const double* sums;
  const double* further;
};

/// m = the maximum of the scores of each row. Operands: p, t, m.
template <class Function>
struct RowScoreSpec {
  std::int64_t rows = 0, columns = 0;
  Function function = {};
  [[nodiscard]] std::string text() const {
    return spec::sized(std::string(Function::name) + " scores", {rows, columns});
  }
  [[nodiscard]] KernelWork work() const { return spec::rows(rows, 2 * columns + 1); }
};
/// The sums of each row, or the further ones. Operands: p, t, m, sums, further sums.
template <class Function, bool further>
struct RowSumsSpec {
  std::int64_t rows = 0, columns = 0;
  Function function = {};
  [[nodiscard]] std::string text() const {
    return spec::sized(std::string(Function::name) + (further ? " further sums" : " sums"),
                       {rows, columns});
  }
  [[nodiscard]] KernelWork work() const { return spec::rows(rows, 2 * columns + 2); }
};
/// loss (float64 scalar) = the sum of the rows' losses times their weights. Operands: m, sums,
/// further sums, [weights], loss.
template <class Function>
struct RowLossSpec {
  std::int64_t rows = 0;
  Function function = {};
  std::int64_t rows_a_weight = 0;  // 0: no weights
  [[nodiscard]] std::string text() const {
    return spec::sized(Function::name, {rows}) + spec::words({{rows_a_weight > 0, "weighted"}});
  }
  [[nodiscard]] KernelWork work() const {
    return spec::elements(static_cast<double>(rows) *
                          (1 + 2 * (Function::sums + Function::further)));
  }
};
/// dp = scale * weight * slope. Operands: p, t, m, sums, further sums, [weights], dp.
template <class Function>
struct RowSlopeSpec {
  std::int64_t rows = 0, columns = 0;
  float scale = 1;
  Function function = {};
  std::int64_t rows_a_weight = 0;  // 0: no weights
  [[nodiscard]] std::string text() const {
    return spec::sized(std::string(Function::name) + " gradient", {rows, columns}) +
           spec::words({{rows_a_weight > 0, "weighted"}});
  }
  [[nodiscard]] KernelWork work() const { return spec::rows(rows, 3 * columns + 1); }
};

/// -(p t) / (|p| |t|), of two rows as vectors, either length no less than epsilon.
struct CosineFunction {
  static constexpr const char* name = "cosine similarity";
  static constexpr bool has_maximum = false, has_slope = true;
  static constexpr int sums = 3, further = 0;  // p t, p^2, t^2
  /// 1 / length of a square.
  [[nodiscard]] MESHWORK_HOST_DEVICE static double inverse(double square) {
    constexpr double most = 1e7;
    const double length = sqrt(square);
    return length * most < 1.0 ? most : 1.0 / length;
  }
  template <class Math>
  [[nodiscard]] MESHWORK_HOST_DEVICE Sums<sums> terms(float p, float t, const RowState&) const {
    const double a = static_cast<double>(p), b = static_cast<double>(t);
    return {{a * b, a * a, b * b}};
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE double loss(const RowState& row) const {
    return -row.sums[0] * inverse(row.sums[1]) * inverse(row.sums[2]);
  }
  template <class Math>
  [[nodiscard]] MESHWORK_HOST_DEVICE float slope(float p, float t, const RowState& row) const {
    const double of_p = inverse(row.sums[1]), of_t = inverse(row.sums[2]);
    // A vector shorter than epsilon is not normalized.
    const double along = of_p * of_p * row.sums[1] < 0.5 ? 0.0 : row.sums[0] * of_p * of_p;
    return static_cast<float>(-of_p * of_t *
                              (static_cast<double>(t) - along * static_cast<double>(p)));
  }
};

/// max(1 + the largest (1 - t) p - the sum of t p, 0).
struct CategoricalHingeFunction {
  static constexpr const char* name = "categorical hinge";
  static constexpr bool has_maximum = true, has_slope = true;
  static constexpr int sums = 2, further = 0;  // t p, how many have the largest (1 - t) p
  template <class Math>
  [[nodiscard]] MESHWORK_HOST_DEVICE float score(float p, float t) const {
    return (1.0f - t) * p;
  }
  template <class Math>
  [[nodiscard]] MESHWORK_HOST_DEVICE Sums<sums> terms(float p, float t, const RowState& row) const {
    return {{static_cast<double>(t) * static_cast<double>(p),
             score<Math>(p, t) == row.maximum ? 1.0 : 0.0}};
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE double loss(const RowState& row) const {
    const double margin = static_cast<double>(row.maximum) - row.sums[0] + 1.0;
    return margin < 0.0 ? 0.0 : margin;
  }
  template <class Math>
  [[nodiscard]] MESHWORK_HOST_DEVICE float slope(float p, float t, const RowState& row) const {
    const float share = static_cast<float>(1.0 / row.sums[1]);
    const float of_largest = score<Math>(p, t) == row.maximum ? (1.0f - t) * share : 0.0f;
    return loss(row) == 0.0 ? 0.0f : of_largest - t;
  }
};

/// The sum of -alpha (1 - q)^gamma t' log(q), q = clip(p / sum of p), or of logits
/// clip(softmax(x)), t' = t keep + add.
template <bool of_logits>
struct CategoricalFocalFunction {
  static constexpr const char* name =
      of_logits ? "categorical focal crossentropy from logits" : "categorical focal crossentropy";
  static constexpr bool has_maximum = of_logits, has_slope = true;
  static constexpr int sums = 1;     // of p, or of exp(x - m)
  static constexpr int further = 2;  // of the loss, and of its derivatives by q times q
  float gamma = 2, alpha = 0.25f, smoothing = 0, add = 0;

  /// With what the number of classes decides.
  [[nodiscard]] CategoricalFocalFunction of_classes(std::int64_t classes) const {
    CategoricalFocalFunction function = *this;
    function.add = classes > 0 ? smoothing / static_cast<float>(classes) : 0.0f;
    return function;
  }

  struct Parts {
    float q, loss, slope;  // q before it is clipped; by q
  };
  template <class Math>
  [[nodiscard]] MESHWORK_HOST_DEVICE float score(float x, float) const {
    return x;
  }
  template <class Math>
  [[nodiscard]] MESHWORK_HOST_DEVICE static float part(float x, const RowState& row) {
    return of_logits ? Math::exp(x - row.maximum) : x;
  }
  template <class Math>
  [[nodiscard]] MESHWORK_HOST_DEVICE Parts parts(float x, float target, const RowState& row) const {
    constexpr float low = loss_epsilon, high = 1.0f - loss_epsilon;
    const float q = part<Math>(x, row) / static_cast<float>(row.sums[0]);
    const float t = target * (1.0f - smoothing) + add;
    const float clipped = q < low ? low : (q > high ? high : q);
    const float away = 1.0f - clipped, logarithm = Math::log(clipped);
    const float factor = powf(away, gamma);
    const float slope =
        -alpha * t * (factor / clipped - gamma * powf(away, gamma - 1.0f) * logarithm);
    return {q, -alpha * t * factor * logarithm, (q < low) | (q > high) ? 0.0f : slope};
  }
  template <class Math>
  [[nodiscard]] MESHWORK_HOST_DEVICE Sums<sums> terms(float x, float, const RowState& row) const {
    return {{static_cast<double>(part<Math>(x, row))}};
  }
  template <class Math>
  [[nodiscard]] MESHWORK_HOST_DEVICE Sums<further> more_terms(float x, float t,
                                                              const RowState& row) const {
    const Parts of = parts<Math>(x, t, row);
    return {
        {static_cast<double>(of.loss), static_cast<double>(of.slope) * static_cast<double>(of.q)}};
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE double loss(const RowState& row) const {
    return row.further[0];
  }
  template <class Math>
  [[nodiscard]] MESHWORK_HOST_DEVICE float slope(float x, float t, const RowState& row) const {
    const Parts of = parts<Math>(x, t, row);
    const float centred = of.slope - static_cast<float>(row.further[1]);
    return of_logits ? of.q * centred : centred / static_cast<float>(row.sums[0]);
  }
};

/// cov(p, t) / (deviation of p * deviation of t), or with `concordance` 2 cov(p, t) / (variance of p
/// + variance of t + (difference of means)^2 + epsilon).
template <bool concordance>
struct CorrelationFunction {
  static constexpr const char* name =
      concordance ? "concordance correlation" : "pearson correlation";
  static constexpr bool has_maximum = false, has_slope = false;
  static constexpr int sums = 2;     // of p and of t
  static constexpr int further = 3;  // of the products of their distances from the means
  double share = 1;                  // 1 / values of a row

  [[nodiscard]] CorrelationFunction of_classes(std::int64_t values) const {
    return {values > 0 ? 1.0 / static_cast<double>(values) : 0.0};
  }
  template <class Math>
  [[nodiscard]] MESHWORK_HOST_DEVICE Sums<sums> terms(float p, float t, const RowState&) const {
    return {{static_cast<double>(p), static_cast<double>(t)}};
  }
  template <class Math>
  [[nodiscard]] MESHWORK_HOST_DEVICE Sums<further> more_terms(float p, float t,
                                                              const RowState& row) const {
    const double of_p = static_cast<double>(p) - row.sums[0] * share;
    const double of_t = static_cast<double>(t) - row.sums[1] * share;
    return {{of_p * of_t, of_p * of_p, of_t * of_t}};
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE double loss(const RowState& row) const {
    constexpr double epsilon = 1e-7;
    if constexpr (concordance) {
      const double between = (row.sums[0] - row.sums[1]) * share;
      return 2.0 * row.further[0] * share /
             ((row.further[1] + row.further[2]) * share + between * between + epsilon);
    } else {
      return row.further[0] / sqrt(row.further[1] * row.further[2]);
    }
  }
};

/// Those that each device has.
using EveryRowLoss = ValueLosses<CosineFunction, CategoricalHingeFunction,
                                 CategoricalFocalFunction<false>, CategoricalFocalFunction<true>,
                                 CorrelationFunction<false>, CorrelationFunction<true>>;

}  // namespace meshwork

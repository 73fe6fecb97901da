// Classes: cross-entropy and ranking. A row is a sample, its columns are classes; split columns are
// as in rows.h. A sparse target below 0, or not below the number of classes, is no class: such a row
// has no loss, no gradient and no rank.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device/kernels/page.h"

namespace meshwork {

/// How a row's target is given: class numbers, or a weight for every class.
enum class TargetKind : std::uint8_t { sparse, dense };

/// Where this rank's columns lie among all classes, and how targets are read. Sparse targets are
/// (rows) int32 class numbers, dense ones (rows, columns) float32 weights. With `smoothing` s the
/// weight t of a class becomes t (1 - s) + s / classes. Where rows have weights of their own, the
/// weights of all classes of a row are multiplied by the row's, and so are its loss and gradient: of
/// each `rows_a_weight` rows in turn one weight, float32, in an operand behind the targets.
struct ClassColumns {
  std::int64_t rows = 0, columns = 0;
  std::int64_t first_class = 0, classes = 0;
  TargetKind target = TargetKind::sparse;
  float smoothing = 0;
  std::int64_t rows_a_weight = 0;  // 0: rows have no weights
  bool operator==(const ClassColumns&) const = default;

  /// "name 4x5 at 5 of 10".
  [[nodiscard]] std::string text(std::string_view name) const;
  /// What reads and writes all columns, the targets, and float32 values of rows so many times.
  [[nodiscard]] KernelWork work(int of_columns, int of_targets, int of_rows) const;
  void require_sparse(std::string_view kernel) const;
  [[nodiscard]] bool weighted() const { return rows_a_weight > 0; }
  /// The operand behind the targets, and behind the weights of rows if there are any.
  [[nodiscard]] int behind_targets() const { return weighted() ? 3 : 2; }
};

/// Of logits x with row maxima m (over all classes): z (rows, 3) = this rank's part of
/// { sum exp(x - m), sum t (x - m), sum t }. Operands: x, target, [weights], m, z.
struct LogitStatisticsSpec {
  ClassColumns at;
  [[nodiscard]] std::string text() const { return at.text("logit statistics"); }
  [[nodiscard]] KernelWork work() const { return at.work(1, 1, 4); }
};
/// loss (float64 scalar) = sum over rows of log(z0) * z2 - z1. Operands: z, loss.
struct LogitLossSpec {
  std::int64_t rows = 0;
  [[nodiscard]] std::string text() const { return spec::sized("logit loss", {rows}); }
  [[nodiscard]] KernelWork work() const { return spec::passes(3, rows); }
};
/// dx = scale * (exp(x - m) / z0 * z2 - t). Operands: x, target, [weights], m, z,
/// dx.
struct LogitGradientSpec {
  ClassColumns at;
  float scale = 1;
  [[nodiscard]] std::string text() const { return at.text("logit gradient"); }
  [[nodiscard]] KernelWork work() const { return at.work(2, 1, 4); }
  [[nodiscard]] InPlace in_place() const { return {{0}}; }
};

/// Of probabilities p with row sums s (over all classes), q = p / s, clipped to [epsilon, 1 -
/// epsilon] with epsilon 1e-7: loss (float64 scalar) = this rank's part of sum over rows and
/// columns of -t log(clip(q)); u (rows) = its part of sum t [q not clipped]. Operands: p, target,
/// [weights], s, loss, u.
struct ProbabilityLossSpec {
  ClassColumns at;
  [[nodiscard]] std::string text() const { return at.text("probability loss"); }
  [[nodiscard]] KernelWork work() const { return at.work(1, 1, 2); }
};
/// dp = scale * (u / s - t [q not clipped] / p), u completed over all classes.
/// Operands: p, target, [weights], s, u, dp.
struct ProbabilityGradientSpec {
  ClassColumns at;
  float scale = 1;
  [[nodiscard]] std::string text() const { return at.text("probability gradient"); }
  [[nodiscard]] KernelWork work() const { return at.work(2, 1, 2); }
  [[nodiscard]] InPlace in_place() const { return {{0}}; }
};

/// v (rows) = this rank's part of the value of the target class: x at the target class if it is
/// among its columns, else 0. Sparse targets. Operands: x, target, v.
struct TargetValueSpec {
  ClassColumns at;
  [[nodiscard]] std::string text() const { return at.text("target value"); }
  [[nodiscard]] KernelWork work() const { return spec::passes(3, at.rows); }
  void check() const { at.require_sparse("target value"); }
};
/// c (rows, int32) = how many of this rank's classes stand before the target class in descending
/// order of x, a tie going to the lower class: x_j > v or (x_j = v and j < target). NaN stands
/// before everything, and everything before a target whose score is NaN. The target itself never
/// counts. Below 0 where the target is no class. Sparse targets. Operands: x, target, v, c.
struct CountAheadSpec {
  ClassColumns at;
  [[nodiscard]] std::string text() const { return at.text("count ahead"); }
  [[nodiscard]] KernelWork work() const { return spec::rows(at.rows, at.columns + 3); }
  void check() const { at.require_sparse("count ahead"); }
};
/// n (float64 scalar) = how many of c (rows) are < k, but for those below 0. Operands: c, n.
struct CountBelowSpec {
  std::int64_t rows = 0;
  std::int64_t k = 1;
  [[nodiscard]] std::string text() const {
    return "count below " + std::to_string(k) + " " + std::to_string(rows);
  }
  [[nodiscard]] KernelWork work() const { return spec::passes(1, rows); }
};
/// i (rows, int32) = the lowest class among this rank's columns whose x equals m, else `classes`.
/// NaN equals NaN. Operands: x, m, i.
struct FirstMaximumSpec {
  ClassColumns at;
  [[nodiscard]] std::string text() const { return at.text("first maximum"); }
  [[nodiscard]] KernelWork work() const { return spec::rows(at.rows, at.columns + 2); }
};

/// Which cross-entropy, of what the columns hold.
enum class Crossentropy : std::uint8_t { none, of_logits, of_probabilities };

/// All of the above at once, of rows with all their classes here: what a loss and metrics ask of
/// the same predictions. A row is read once; the numbers are those of the kernels above.
///   loss (float64 scalar) = the sum over rows of `crossentropy`, if that is not none;
///   dx = scale * its gradient, if `gradient`;
///   n (float64 scalar), one for each k of `within` = how many rows have a target class, and fewer
///   than k classes before it. Of dense targets that is the lowest of the largest weight, and
///   smoothing, which is that of the loss, does not matter to it.
/// Operands: x, target, [weights], [loss], [dx], n...
struct ClassComparisonSpec {
  ClassColumns at;
  Crossentropy crossentropy = Crossentropy::none;
  bool gradient = false;
  float scale = 1;
  std::vector<std::int64_t> within;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] KernelWork work() const { return at.work(gradient ? 2 : 1, 1, 0); }
  [[nodiscard]] InPlace in_place() const {
    if (!gradient) return {};
    return {{0}, at.behind_targets() + (crossentropy == Crossentropy::none ? 0 : 1)};
  }
  void check() const;
};

/// How the class of a row is read from its target: a class number; the lowest of the classes with
/// the largest of given weights; or 1 for a target above 0.5, else 0. `none`: rows have no class and
/// weigh 1.
enum class RowClass : std::uint8_t { none, number, largest, binary };

/// y (rows) = the weight in `table` of the class of each row, times the row's weight if rows have
/// weights (ClassColumns), and 0 where a mask does not count the row (masks.h), if there is one;
/// classes behind the table weigh 1. With a mask y is multiplied by rows_in_all / n, where n (float64
/// scalar) is the number of rows that count; if it is 0, y is 0. Targets are (rows, columns), int32
/// for numbers, else float32. Operands: [target, unless rows have no class], [weights], [mask, n], y.
struct RowWeightSpec {
  std::int64_t rows = 0, columns = 1;
  RowClass of_row = RowClass::number;
  std::int64_t rows_a_weight = 0;  // 0: rows have no weights
  std::int64_t rows_a_mask = 0;    // 0: no mask
  std::vector<float> table = {};
  double rows_in_all = 0;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] KernelWork work() const { return spec::rows(rows, columns + 1); }
};

}  // namespace meshwork

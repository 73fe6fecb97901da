// Means over the batches of an epoch: sums and counts travel, never means.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/contents.h"
#include "runtime/train/objective.h"
#include "runtime/train/reporting/logs.h"

namespace meshwork {

/// Adds up the sums of batches and writes their means, as they stand, into logs. After construction
/// it allocates nothing but the first time that a name is written.
class RunningMeans {
 public:
  /// `prefix` goes before every name: "" or "val_".
  RunningMeans(const Objective& objective, const std::string& prefix);

  void reset();
  /// The sums of a batch of `rows` rows (engine.h). A penalty, if there is one, stands behind them;
  /// it belongs to the loss, and counts for every row of the batch.
  void add(std::span<const double> sums, bool has_penalty, std::int64_t rows);
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  /// Sets the mean of every name. Without rows, nothing.
  void write(Logs& logs) const;

  /// What the means are made of, and taking it up again: the means go on bit for bit.
  [[nodiscard]] RunningSums save() const;
  /// Throws `Error` unless the sums are of the same names.
  void load(const RunningSums& saved);

 private:
  std::vector<std::string> names_;
  std::vector<double> values_per_row_;
  std::vector<double> sums_;
  double penalties_ = 0;
  std::int64_t rows_ = 0;
};

}  // namespace meshwork

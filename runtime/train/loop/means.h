// Means over the batches of an epoch: sums and counts travel, never means.
//
// The sums of steps that the device may still be working on are added when somebody asks for the
// means. After a step its sums are on their way to pinned memory, in the queue of kernels, and the
// host goes on to the next. They are added in the order of the steps, so that the means are the
// same bit for bit whenever they are asked for. Who asks after every step makes the host wait for
// each; who asks for none makes it wait only when it is `late` steps ahead. On a device that
// computes in the host's memory they are added at once.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/contents.h"
#include "runtime/train/engine/engine.h"
#include "runtime/train/objective.h"
#include "runtime/train/reporting/logs.h"

namespace meshwork {

/// Adds up the sums of batches and writes their means, as they stand, into logs. After construction
/// it allocates nothing but the first time that a name is written, and what metrics of several sums
/// need for their values.
class RunningMeans {
 public:
  /// Steps whose sums may be on their way.
  static constexpr std::size_t late = 16;

  /// `prefix` goes before every name: "" or "val_". With `gradient_norm`, steps report the norm of
  /// their gradients. `device` outlives this.
  RunningMeans(Device& device, const Objective& objective, const std::string& prefix,
               bool gradient_norm = false);

  void reset();
  /// Adds what `step`, which has just run, sums up. A penalty, if there is one, belongs to the
  /// loss. It and the norm of the gradients count for every row of the batch.
  void add(Step& step);
  /// Sets the mean of every name. Without rows, nothing.
  void write(Logs& logs);

  /// What the means are made of, and taking it up again: the means go on bit for bit.
  [[nodiscard]] RunningSums save();
  /// Throws `Error` unless the sums are of the same names.
  void load(const RunningSums& saved);

 private:
  struct Turn {
    std::unique_ptr<Mark> arrived;
    bool has_penalty = false;
    std::int64_t rows = 0;
  };
  /// The sums of a batch, and the penalty and the squared norm behind them.
  void take(std::span<const double> sums, bool has_penalty, std::int64_t rows);
  void take_oldest();
  void settle() {
    while (under_way_ > 0) take_oldest();
  }
  /// No more than a step sums up.
  [[nodiscard]] std::size_t values() const { return so_far_.sums.size() + 1; }

  Device* device_;
  // What is written, and which sums it follows from.
  struct Measure {
    std::string name;
    SharedMetric metric;
    std::int64_t result = 0;           // of the metric
    std::size_t first = 0, count = 0;  // of the sums
    double values_per_row = 1;
    std::optional<std::size_t> counted_by = {};  // the sum that says of how many values they are
  };
  [[nodiscard]] double value_of(const Measure& measure) const;

  std::vector<Measure> measures_;     // of the objective
  std::size_t own_ = 0;               // how many sums are theirs
  std::vector<double> loss_weights_;  // of the first
  std::string loss_name_;             // of the weighted sum of their means
  RunningSums so_far_;
  Memory pinned_;  // `late` times `values`
  std::array<Turn, late> turns_;
  std::size_t oldest_ = 0, under_way_ = 0;  // of the turns
};

}  // namespace meshwork

#include "runtime/train/loop/means.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "collectives/error.h"

namespace meshwork {

RunningMeans::RunningMeans(const Objective& objective, const std::string& prefix)
    : values_per_row_(objective.values_per_row), sums_(objective.names.size(), 0.0) {
  for (const std::string& name : objective.names) {
    names_.push_back(prefix + name);
  }
}

void RunningMeans::reset() {
  std::fill(sums_.begin(), sums_.end(), 0.0);
  penalties_ = 0;
  rows_ = 0;
}

void RunningMeans::add(std::span<const double> sums, bool has_penalty, std::int64_t rows) {
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    sums_[i] += sums[i];
  }
  if (has_penalty) {
    penalties_ += sums[sums_.size()] * static_cast<double>(rows);
  }
  rows_ += rows;
}

void RunningMeans::write(Logs& logs) const {
  if (rows_ == 0) {
    return;
  }
  const double rows = static_cast<double>(rows_);
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const double mean = sums_[i] / (rows * values_per_row_[i]);
    const double shown = i == 0 ? mean + penalties_ / rows : mean;
    // A NaN's sign says nothing, and would be written.
    logs.set(names_[i], std::isnan(shown) ? std::numeric_limits<double>::quiet_NaN() : shown);
  }
}

RunningSums RunningMeans::save() const {
  return {names_, sums_, penalties_, rows_};
}

void RunningMeans::load(const RunningSums& saved) {
  if (saved.names != names_ || saved.sums.size() != sums_.size()) {
    fail("the running means that were saved are of other metrics");
  }
  sums_ = saved.sums;
  penalties_ = saved.penalties;
  rows_ = saved.rows;
}

}  // namespace meshwork

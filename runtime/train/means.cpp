#include "runtime/train/means.h"

#include <algorithm>

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
    logs.set(names_[i], i == 0 ? mean + penalties_ / rows : mean);
  }
}

}  // namespace meshwork

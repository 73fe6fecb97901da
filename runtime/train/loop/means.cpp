#include "runtime/train/loop/means.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "collectives/error.h"
#include "runtime/train/metrics/metric.h"

namespace meshwork {

RunningMeans::RunningMeans(Device& device, const Objective& objective, const std::string& prefix,
                           bool gradient_norm)
    : device_(&device),
      loss_weights_(objective.loss_weights),
      loss_name_(prefix + objective.names.front()) {
  // The only loss goes by the name of the sum of all.
  auto name = objective.names.end() - std::accumulate(objective.results.begin(),
                                                      objective.results.end(), std::ptrdiff_t{0});
  std::vector<std::size_t> firsts;  // by measured sum
  for (std::size_t i = 0; i < objective.measured.size(); ++i) {
    const auto count = static_cast<std::size_t>(objective.sum_counts[i]);
    firsts.push_back(own_);
    for (std::int64_t result = 0; result < objective.results[i]; ++result) {
      measures_.push_back({prefix + *name++, objective.measured[i], result, own_, count,
                           objective.values_per_row[i]});
      if (const int by = objective.counted_by[i]; by >= 0) measures_.back().counted_by = firsts[by];
    }
    own_ += count;
    so_far_.names.resize(own_, objective.measured[i] ? measures_.back().name : prefix + "count");
  }
  if (gradient_norm) so_far_.names.emplace_back(gradient_norm_name);
  so_far_.sums.resize(so_far_.names.size());
  if (device.traits().computes_in_host_memory) return;
  pinned_ =
      device.queues().allocate_pinned(static_cast<std::int64_t>(late * values() * sizeof(double)));
  for (Turn& turn : turns_) turn.arrived = device.queues().make_mark();
}

void RunningMeans::reset() {
  settle();
  std::fill(so_far_.sums.begin(), so_far_.sums.end(), 0.0);
  so_far_.penalties = 0;
  so_far_.rows = 0;
}

void RunningMeans::add(Step& step) {
  if (device_->traits().computes_in_host_memory) {
    take(step.sums(), step.has_penalty(), step.rows());
    return;
  }
  if (under_way_ == late) take_oldest();
  const std::size_t at = (oldest_ + under_way_++) % late;
  turns_[at].has_penalty = step.has_penalty();
  turns_[at].rows = step.rows();
  step.start_sums({static_cast<double*>(pinned_.data()) + at * values(), values()});
  device_->queues().kernels().record(*turns_[at].arrived);
}

void RunningMeans::take_oldest() {
  const Turn& turn = turns_[oldest_];
  turn.arrived->wait();
  take({static_cast<const double*>(pinned_.data()) + oldest_ * values(), values()},
       turn.has_penalty, turn.rows);
  oldest_ = (oldest_ + 1) % late;
  --under_way_;
}

void RunningMeans::take(std::span<const double> sums, bool has_penalty, std::int64_t rows) {
  for (std::size_t i = 0; i < own_; ++i) {
    so_far_.sums[i] += sums[i];
  }
  if (has_penalty) {
    so_far_.penalties += sums[own_] * static_cast<double>(rows);
  }
  if (so_far_.sums.size() > own_) {
    so_far_.sums[own_] += std::sqrt(sums[own_ + (has_penalty ? 1 : 0)]) * static_cast<double>(rows);
  }
  so_far_.rows += rows;
}

double RunningMeans::value_of(const Measure& measure) const {
  return measure.metric->value(std::span(so_far_.sums).subspan(measure.first, measure.count),
                               measure.counted_by
                                   ? so_far_.sums[*measure.counted_by]
                                   : static_cast<double>(so_far_.rows) * measure.values_per_row,
                               measure.result);
}

void RunningMeans::write(Logs& logs) {
  settle();
  if (so_far_.rows == 0) {
    return;
  }
  const auto set = [&](const std::string& name, double value) {
    // A NaN's sign says nothing, and would be written.
    logs.set(name, std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value);
  };
  const double rows = static_cast<double>(so_far_.rows);
  double loss = so_far_.penalties / rows;
  for (std::size_t i = 0; i < loss_weights_.size(); ++i)
    loss += loss_weights_[i] * value_of(measures_[i]);
  set(loss_name_, loss);
  for (std::size_t i = loss_name_ == measures_.front().name ? 1 : 0; i < measures_.size(); ++i) {
    set(measures_[i].name, value_of(measures_[i]));
  }
  if (so_far_.sums.size() > own_) set(so_far_.names.back(), so_far_.sums[own_] / rows);
}

RunningSums RunningMeans::save() {
  settle();
  return so_far_;
}

void RunningMeans::load(const RunningSums& saved) {
  if (saved.names != so_far_.names || saved.sums.size() != so_far_.sums.size()) {
    fail("the running means that were saved are of other metrics");
  }
  so_far_ = saved;
}

}  // namespace meshwork

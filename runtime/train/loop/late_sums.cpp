#include "runtime/train/loop/late_sums.h"

namespace meshwork {

LateSums::LateSums(Device& device, RunningMeans& means, std::size_t values)
    : device_(&device), means_(&means), values_(values) {
  if (device.traits().computes_in_host_memory) return;
  pinned_ =
      device.queues().allocate_pinned(static_cast<std::int64_t>(kept * values_ * sizeof(double)));
  for (Turn& turn : turns_) turn.arrived = device.queues().make_mark();
}

void LateSums::add(Step& step) {
  if (device_->traits().computes_in_host_memory) {
    means_->add(step.sums(), step.has_penalty(), step.rows());
    return;
  }
  if (count_ == kept) take_oldest();
  const std::size_t at = (oldest_ + count_++) % kept;
  turns_[at].has_penalty = step.has_penalty();
  turns_[at].rows = step.rows();
  step.start_sums({static_cast<double*>(pinned_.data()) + at * values_, values_});
  device_->queues().kernels().record(*turns_[at].arrived);
}

void LateSums::settle() {
  while (count_ > 0) take_oldest();
}

void LateSums::take_oldest() {
  const Turn& turn = turns_[oldest_];
  turn.arrived->wait();
  means_->add({static_cast<const double*>(pinned_.data()) + oldest_ * values_, values_},
              turn.has_penalty, turn.rows);
  oldest_ = (oldest_ + 1) % kept;
  --count_;
}

}  // namespace meshwork

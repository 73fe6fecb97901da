#include "runtime/train/loop/step_agreement.h"

#include <algorithm>
#include <array>

namespace meshwork {

StepAgreement::StepAgreement(Transport& transport, const Communicator& communicator, bool wanted,
                             bool every_step, CollectiveTrace* trace)
    : communicator_(&communicator),
      wanted_(wanted || every_step),
      every_step_(every_step || communicator.size() == 1),
      trace_(trace),
      label_(trace != nullptr ? trace->label("agreement on whether to stop or to save") : nullptr) {
  if (wanted_ && communicator.size() > 1) {
    transport.prepare(communicator);
    maxima_ = transport.compile(
        communicator, AllReduce{ElementType::float64, Reduction::maximum, std::int64_t{values}});
  }
}

StepWish StepAgreement::agree(std::int64_t iteration, const StepWish& own) {
  const auto now = std::chrono::steady_clock::now();
  const bool root = communicator_->rank() == 0;
  std::int64_t ahead = 1;
  if (root && !every_step_ && last_ >= 0 && iteration > last_) {
    const std::int64_t steps = iteration - last_;
    const double seconds = std::chrono::duration<double>(now - at_).count();
    const double fitting = interval_seconds * static_cast<double>(steps) / std::max(seconds, 1e-9);
    ahead =
        std::clamp<std::int64_t>(static_cast<std::int64_t>(std::min(fitting, 1e15)), 1, 2 * steps);
  }
  // Everybody's reason counts; of the rest the maximum is rank 0's word, the others give zeros.
  std::array<double, values> wish{static_cast<double>(own.stop_reason), 0, 0, 0, 0};
  if (root) {
    wish[1] = own.callbacks_stop ? 1 : 0;
    wish[2] = own.save ? 1 : 0;
    wish[3] = own.settle ? 1 : 0;
    wish[4] = static_cast<double>(ahead);
  }
  if (maxima_) {
    const TracedCollective inside(trace_, label_);
    maxima_->run(nullptr, wish.data());
  }
  last_ = iteration;
  next_ = iteration + static_cast<std::int64_t>(wish[4]);
  at_ = now;
  return {static_cast<int>(wish[0]), wish[1] != 0, wish[2] != 0, wish[3] != 0};
}

}  // namespace meshwork

// StepAgreement: what the ranks agree on at the end of a step: whether to stop, whether to save.
//
// A rank can have reasons of its own: a signal that it got alone, the clock that says that a
// checkpoint is due, a callback that looks at a file. The ranks must act on them after the same
// step. One small all-reduce tells everybody, but not after every step: each *agreement* fixes the
// step of the next one, which rank 0 places about `interval_seconds` ahead by the time that steps
// take here (1 step at least, and twice as far as the last time at most). Between them `due` is a
// comparison of two numbers. A run in which nobody can have reasons of his own has no agreements.
//
// This is the one place in `fit` where a stop that ranks do not see alike is decided.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "collectives/communicator.h"
#include "collectives/trace.h"
#include "collectives/transport.h"

namespace meshwork {

/// What a rank brings to an agreement, and what comes out of it for all.
struct StepWish {
  int stop_reason = 0;          // of stop_request.h, of any rank; 0 for none
  bool callbacks_stop = false;  // rank 0's word
  bool save = false;            // rank 0's word: its clock says that a checkpoint is due
  bool settle = false;          // rank 0's word: the checkpoint under way has ended
};

class StepAgreement {
 public:
  static constexpr double interval_seconds = 0.5;
  /// What an agreement reduces: so many float64 values, by their maxima.
  static constexpr std::size_t values = 5;

  /// `every_step`: agree after every step, because the user's callbacks may stop at any. A single
  /// rank does so always. `trace`, if there is one, must outlive it.
  StepAgreement(Transport& transport, const Communicator& communicator, bool wanted,
                bool every_step, CollectiveTrace* trace = nullptr);

  /// Whether there are agreements at all.
  [[nodiscard]] bool wanted() const { return wanted_; }
  /// Whether the ranks agree after the step that made `iteration` updates. The same on all ranks.
  [[nodiscard]] bool due(std::int64_t iteration) const { return wanted_ && iteration >= next_; }
  /// The common wish: the largest reason, and rank 0's word on the rest. All ranks call it, after
  /// the same step.
  [[nodiscard]] StepWish agree(std::int64_t iteration, const StepWish& own);

 private:
  const Communicator* communicator_;
  Compiled maxima_;  // null where nobody has to be asked
  bool wanted_;
  bool every_step_;
  CollectiveTrace* trace_;
  const std::string* label_ = nullptr;  // of the trace
  std::int64_t last_ = -1;              // iteration of the last agreement; -1: there was none
  std::int64_t next_ = 0;
  std::chrono::steady_clock::time_point at_;
};

}  // namespace meshwork

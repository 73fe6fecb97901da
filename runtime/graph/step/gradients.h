// StepGradients: what backward collects.
//
// A tensor's gradient is the sum of what its uses contribute, a variable's over all micro-batches
// too. Gradients that a bucket reduces are added up partial. Others are reduced in each
// micro-batch, so that no rank keeps more of them than its block. Contributions of one layout are
// added locally as they come, and so are those over the same boxes of an input with windows. When
// the last use has contributed, boxes go back to the owners, one exchange for all that are the
// same, each layout is brought to the tensor's, and they are added. A variable's gradient ends in
// its place in the flat gradients. Most are written there by the only use, still partial, and
// reduced with their bucket (parameter_form.h). It is started as soon as its last gradient is
// there, and waited for before it is updated. By then no instruction of this rank reads the
// bucket's variables any more: each has contributed its last gradient, and an operation contributes
// when all of its backward is booked. While buckets are under way, what can be done for them
// without waiting is done between kernels, where the transport has a use for that.
//
// A value that is held at one place and used at others gets one gradient back from each of them, as
// soon as the last use there has contributed. It is received early, and waited for where it is added up.
// What was sent is waited for where, by the times of the schedule, the other side has begun to receive
// it. So no wait needs anything but actions that come before it. Of a variable each place adds up its
// micro-batches first: what crosses is the gradient of the batch.
//
// Backward of several micro-batches can be under way, of each as far as some stage.
//
// The gradient of an operation's input comes before those of its weights, and the rest of backward
// waits for it. So where it has to be reduced that is started before the gradients of the weights,
// and waited for behind them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/graph/step/context.h"
#include "runtime/graph/step/values.h"
#include "runtime/mesh/window_exchange.h"

namespace meshwork {

/// Of which tensors.
enum class GradientsOf : std::uint8_t { all, values, variables };
[[nodiscard]] constexpr bool includes(GradientsOf which, bool variable) {
  return which == GradientsOf::all || variable == (which == GradientsOf::variables);
}

class StepGradients {
 public:
  /// `actions` are those of all coordinates.
  StepGradients(StepContext& step, const Actions& actions);

  /// Begins to receive what other places give to gradients that are complete in the stage and the
  /// micro-batch at hand. At any time before.
  void expect(GradientsOf which);
  /// Before action `index` of this rank: waits for what was sent and is taken by then.
  void begin(std::size_t index);

  /// The place of the gradient of tensor `id` in the flat gradients, if backward writes it straight
  /// there: the only contribution, of the first micro-batch, reduced with its bucket.
  [[nodiscard]] std::optional<Operand> place_of(TensorId id) const;

  /// The stage at hand is behind backward of operation `index`, which this rank has booked or left to
  /// others: it has contributed.
  void end_uses(std::size_t index, GradientsOf which);
  /// At the end of the step: what was sent is there.
  void wait_for_sent();

  /// Takes the raw gradient that one use of `id` gave, lying as `raw` says; this or the next, once
  /// for each use.
  void contribute(TensorId id, const Layout& raw, Operand gradient);
  /// The same of a use that took boxes: the gradient over this rank's box.
  void contribute_box(TensorId id, const Layout& raw, const Windows& windows, Operand gradient);

  /// Starts the reduction of the raw gradient that a use of a value is about to contribute, if it
  /// is the only contribution and has to be reduced as it stands, no more. `complete` waits for it.
  void start_reduction(TensorId id, const Layout& raw, Operand gradient);

  /// Completes the gradient of a value, whose uses have all contributed.
  void complete(TensorId id);
  /// The complete gradient, in the tensor's layout.
  [[nodiscard]] Operand completed(TensorId id) const;

  /// Books the wait for a bucket.
  void wait_for(int bucket);

 private:
  Operand sum_of_two(TensorId id, std::int64_t count, Operand a, Operand b);
  void add_contribution(TensorId id, const Layout& raw, Operand gradient);
  void give_back_boxes(TensorId id, const Places& at);
  void cross_back(TensorId id, std::size_t way);
  /// The sum of that and of what earlier micro-batches have given to variable `id` there.
  Operand with_kept(TensorId id, const Places& from, Operand sum);
  [[nodiscard]] bool is_last_micro_batch() const {
    return step_.micro_batch + 1 == step_.micro_batches.size();
  }
  Operand sum_of_contributions(TensorId id, std::optional<Operand> destination);
  [[nodiscard]] bool goes_to_bucket(TensorId id) const;
  void add_to_place(int variable, Operand gradient);
  void use_ended(TensorId id, const Places& at);
  void complete_variable(int variable);
  void start(int bucket);

  struct BoxGradient {
    Layout raw;
    Windows windows;
    Operand gradient;
  };
  // What uses have given, in one layout; or a place, in that of the tensor.
  struct Contribution {
    Layout layout;
    Operand at;
    std::optional<StepContext::Message> arriving = {};
  };
  /// Where it is, when it is there.
  Operand arrived(Contribution& contribution);
  using Waiting = StepContext::Message;
  // What has been given in one micro-batch, by tensor.
  struct Given {
    std::vector<Contribution> contributions;
    std::vector<BoxGradient> boxes;
    std::optional<Operand> completed;
    int uses_left = 0;                             // uses that have yet to contribute
    std::vector<std::pair<Places, int>> uses_at;   // the same by place, where it crosses
    std::map<std::size_t, Contribution> arriving;  // by place
    std::optional<Waiting> reducing;
  };
  /// Of the micro-batch at hand.
  Given& given(TensorId id) { return given_[step_.micro_batch][static_cast<std::size_t>(id)]; }

  StepContext& step_;
  std::vector<std::vector<Given>> given_;  // by micro-batch and tensor
  int reductions_ = 0;                     // of values, under way
  // When a rank begins to receive what others give to the gradient of `id`, by the timeline.
  [[nodiscard]] double taken_at(TensorId id, std::int64_t rank) const;
  const Actions& actions_;  // of a pipeline; else of one coordinate
  Timeline timeline_;
  std::map<TensorId, const PlannedOperation*> makers_;
  std::vector<std::pair<double, StepContext::Message>> sent_;  // and when they are taken
  std::vector<int> bucket_of_;                                 // by variable, -1 for none
  std::vector<int> left_in_bucket_;  // by bucket: variables, times micro-batches
  /// A reduction was started, and is waited for.
  void go_on(std::optional<Waiting>& place, Waiting waiting);
  void wait_for(std::optional<Waiting>& place);
  std::vector<std::optional<Waiting>> waiting_;                // by bucket
  std::vector<std::vector<std::pair<Places, Operand>>> kept_;  // by tensor: sums that cross later
};

}  // namespace meshwork

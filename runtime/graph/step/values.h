// StepValues: where the tensors of a step stand, and in which layouts.
//
// A tensor first stands in the layout that the plan gave it. Where a use wants another, it is
// brought there once for all uses that want the same. Variables that were gathered for forward are
// forgotten before backward and gathered again, so that no rank holds more of them than a layer
// needs and the next one, whose gathering begins a layer ahead. Where their blocks are joined
// (parameters.h) they are gathered to where they stand.
//
// What crosses to other places (runtime/mesh/crossing.h) is sent where it is made. The other side begins
// to receive it early, and waits for it where it is first used. As this rank sees it, all that it has
// lies without places.
//
// An operation with windows takes a box of its input, which is brought from the ranks that own it,
// once for all uses that want the same box on every rank. It is kept for backward instead of being
// exchanged again: backward reads the box and not the block, which can leave the memory unless
// somebody else reads it, so that keeping costs little more than the halo itself, where a second
// exchange would cost what the first did. Where the plan keeps the input whole along the windows,
// each rank cuts its box out of what it has.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/graph/step/context.h"
#include "runtime/mesh/window_exchange.h"

namespace meshwork {

/// Tensors, or their gradients, by the layout they are in.
using ByLayout = std::vector<std::pair<Layout, Operand>>;

class StepValues {
 public:
  /// Those of the micro-batch at hand. Inputs (and but for prediction targets) are converted to the
  /// type of their tensors, gathered and scaled when the first operation asks for them.
  explicit StepValues(StepContext& step);

  /// Tensor `id` in `layout`, brought there if need be.
  [[nodiscard]] Operand in(TensorId id, const Layout& wanted);
  /// This rank's box of tensor `id`, which lies as `layout`, brought from its owners if need be.
  [[nodiscard]] Operand in_boxes(TensorId id, const Layout& layout, const Windows& windows);
  /// Tensor `id` in the layout of the plan.
  [[nodiscard]] Operand settled(TensorId id) { return known(id).front().second; }

  /// Takes what an operation left as `as_made`, and brings it to the layout of the plan.
  void add(TensorId id, const Layout& as_made, Operand value);

  /// If value `id` is read elsewhere than it is made: starts to send it, once it is made, or to receive
  /// it, at any time before.
  void cross(TensorId id);
  /// What the stage at hand has sent is there.
  void wait_for_sent();
  /// The same, and what nobody has read here.
  void end_messages();

  /// Takes `value`, in `layout`, for what tensor `id` is in every micro-batch.
  void share(TensorId id, const Layout& layout, Operand value) {
    available_[id].emplace_back(layout, value);
  }

  /// Tensor `id`, a variable, was written and is now `value` in `layout`, and as it is stored. What
  /// was gathered of it before is of the old value.
  void update(TensorId id, const Layout& as_made, Operand value);

  /// The relu mask of tensor `id`, if its operation wrote one.
  void add_mask(TensorId id, Operand mask) { masks_.emplace(id, mask); }
  [[nodiscard]] std::optional<Operand> mask_of(TensorId id) const;

  /// What is gathered from here on is of another pass: of another stage, or of backward.
  void begin_pass();
  /// The same; what was gathered before is gathered again.
  void forget_gathered_variables();
  /// What `operation` gave, and what its inputs that are no variables were brought to, to be made
  /// again.
  void forget(const PlannedOperation& operation);

 private:
  void note_what_is_fed();
  /// Where the tensor stands, in the layout of the plan first.
  ByLayout& known(TensorId id);
  /// How a fed tensor is made of what is fed, if that is not the same.
  struct Conversion {
    ElementType type = ElementType::float32;  // of what is fed
    Operand from;                             // what is fed, or
    bool gathered = false;                    // the table's address
    Operand rows;                             // and which rows of it are this rank's
  };
  Operand convert(TensorId id, const Conversion& conversion);
  Operand cut_box(TensorId id, const Windows& windows);
  /// Variable `id`, and starts to gather the one that is wanted next.
  Operand gather(TensorId id, const Layout& layout);

  StepContext& step_;
  std::vector<ByLayout> available_;  // by tensor; the first is in the tensor's layout
  std::size_t micro_batch_;
  std::size_t pass_ = 0, gathered_ = 0;  // which pass it is, and how many variables it has gathered
  std::function<Operand()> ahead_;       // ends the gathering of the next one
  std::map<TensorId, Conversion> conversions_;  // of fed tensors that nobody has asked for
  std::vector<std::vector<std::pair<Windows, Operand>>> boxes_;  // by tensor
  std::map<TensorId, Operand> masks_;
  std::map<TensorId, StepContext::Message> arriving_;
  std::map<std::int64_t, std::vector<StepContext::Message>> sent_;  // by stage
};

}  // namespace meshwork

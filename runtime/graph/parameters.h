// Parameters: the flat memory of a model's variables, gradients and optimizer slots.
//
// All blocks of trainable variables that this rank holds stand in one contiguous stretch of
// float32, all gradients in a second one of the same form, and each optimizer slot in a further
// one; variables that are not trained stand in a stretch of their own. Within a stretch the order
// is that in which backward finishes the gradients, grouped by how they are reduced: a *bucket* is
// a span of one group, and is reduced as it stands, without packing, as soon as its last gradient
// is written. Variables that nothing leads from to the loss stand behind all others: they are not
// updated, and neither shrink by weight decay nor count in a norm, as in Keras.
//
// The form follows from the plan alone, so that programs for any batch length share it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/graph/plan.h"

namespace meshwork {

/// Where one variable's block stands.
struct ParameterSpan {
  int variable = -1;  // index into the graph's variables
  Layout layout;
  Block block;              // of this rank
  std::int64_t offset = 0;  // elements into its stretch
  std::int64_t count = 0;   // elements
  bool trainable = true;
  // Whether a step updates it: it is trainable, and the loss or its own penalty depends on it.
  bool updated = false;
  // Whether backward writes the gradient straight to its place here; then `reduced_over` are the
  // axes over which it is partial there, for its bucket to reduce. Any other is reduced on its way.
  bool in_place = false;
  std::vector<Axis> reduced_over;
};

/// A span of the gradients that one all-reduce completes.
struct GradientBucket {
  std::int64_t offset = 0;
  std::int64_t count = 0;
  std::int64_t global_count = 0;  // elements of its variables, global: equal on all ranks
  std::vector<Axis> axes;
  std::vector<int> variables;
};

/// The form of the flat memory on one rank.
struct ParameterForm {
  std::vector<ParameterSpan> spans;     // by variable
  std::vector<GradientBucket> buckets;  // in the order in which backward completes them
  std::int64_t trainable_count = 0;
  std::int64_t updated_count = 0;  // the first of them
  std::int64_t fixed_count = 0;
};

/// `bucket_bytes`: a bucket is closed when it is at least this large.
[[nodiscard]] ParameterForm parameter_form(const Plan& plan, std::int64_t rank,
                                           std::int64_t bucket_bytes = std::int64_t{4} << 20);

/// The memory itself.
class Parameters {
 public:
  using Allocate = std::function<Memory(std::int64_t bytes)>;

  /// Allocates and gives every variable its initial value, keyed by `seed` and path. `slots` are
  /// the optimizer's slot names; slots start as zeros. `allocate_gradients` gives the memory of the
  /// gradients, where it is not to be the device's: zeros that the device reads and writes.
  Parameters(Device& device, const Plan& plan, ParameterForm form, std::uint64_t seed,
             std::vector<std::string> slots, const Allocate& allocate_gradients = {});

  [[nodiscard]] const ParameterForm& form() const { return form_; }
  [[nodiscard]] const std::vector<std::string>& slot_names() const { return slot_names_; }

  /// The stretches, float32 on the device.
  [[nodiscard]] float* values() const { return static_cast<float*>(values_.data()); }
  [[nodiscard]] float* fixed() const { return static_cast<float*>(fixed_.data()); }
  [[nodiscard]] float* gradients() const { return static_cast<float*>(gradients_.data()); }
  [[nodiscard]] float* slot(int index) const { return static_cast<float*>(slots_[index].data()); }

  /// This rank's block of variable `variable`, of its gradient or of a slot.
  [[nodiscard]] float* value(int variable) const;
  [[nodiscard]] float* gradient(int variable) const;
  [[nodiscard]] float* slot(int index, int variable) const;

  /// Copies of everything that training changes, on the host: values, fixed, slots.
  [[nodiscard]] std::vector<std::vector<float>> snapshot() const;
  void restore(const std::vector<std::vector<float>>& snapshot);

 private:
  Device* device_;
  ParameterForm form_;
  std::vector<std::string> slot_names_;
  Memory values_, fixed_, gradients_;
  std::vector<Memory> slots_;
};

}  // namespace meshwork

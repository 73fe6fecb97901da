// Parameters: the flat memory of a model's variables, gradients and optimizer slots, in the form
// that parameter_form.h describes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/graph/parameter_form.h"

namespace meshwork {

/// In place of the number of a slot: the value of the variable.
inline constexpr int its_value = -1;

/// Where the memory comes from that is not to be the device's: zeros that the device reads and
/// writes. Without `gradients` theirs is the device's too; `shared` is needed where groups are.
struct ParameterMemory {
  std::function<Memory(std::int64_t bytes)> gradients;
  /// The same memory for all sharers over `axes`. Every rank of the mesh calls it, for the same
  /// axes in their order.
  std::function<Memory(const std::vector<Axis>& axes, std::int64_t bytes)> shared;
};

/// The memory itself.
class Parameters {
 public:
  /// Allocates. `slots` are the optimizer's.
  Parameters(Device& device, ParameterForm form, std::vector<Slot> slots,
             const ParameterMemory& memory = {});

  /// Gives every variable its initial value, keyed by `seed` and path, and every slot its own.
  /// Throws `Error` that names the variable and its initializer if that fails.
  void initialize(const Plan& plan, std::uint64_t seed);

  [[nodiscard]] const ParameterForm& form() const { return form_; }
  [[nodiscard]] const std::vector<Slot>& slots() const { return slots_; }

  /// The memory of a group, on the device: where its sharers have it, and else of this rank.
  struct Group {
    Memory values;  // float32, `ParameterGroup::held`
    Memory narrow;  // the narrow copy of that, if there is one
    std::vector<Memory> slots;
  };
  /// For programs, which read and write it.
  [[nodiscard]] const Group& group(int index) const { return groups_[index]; }
  [[nodiscard]] float* fixed() const { return static_cast<float*>(fixed_.data()); }
  [[nodiscard]] float* gradients() const { return static_cast<float*>(gradients_.data()); }

  /// The slots of variable `variable`: none of one that is not trained.
  [[nodiscard]] int slot_count(int variable) const;
  /// This rank's block of a variable, or of a slot of it.
  [[nodiscard]] const float* block(int variable, int slot = its_value) const {
    return at(variable, slot);
  }
  /// Sets it, from the host's memory.
  void write(int variable, std::span<const float> block, int slot = its_value);

  /// Copies the values of all variables to two stretches in the host's memory, or back.
  void read_values(std::span<float> trainable, std::span<float> rest) const;
  void write_values(std::span<const float> trainable, std::span<const float> rest);
  /// A stretch with what a slot has of all that is updated, and of what is not, `otherwise` has.
  [[nodiscard]] std::vector<float> read_updated(int slot, std::span<const float> otherwise) const;
  /// Sets a slot from a stretch.
  void write_slot(int slot, std::span<const float> trainable);

 private:
  void allocate_groups(const ParameterMemory& memory);
  [[nodiscard]] float* at(int variable, int slot) const;
  void write_in_group(int group, std::int64_t at, std::span<const float> values);

  Device* device_;
  ParameterForm form_;
  std::vector<Slot> slots_;
  Memory fixed_, gradients_;
  std::vector<Group> groups_;
};

}  // namespace meshwork

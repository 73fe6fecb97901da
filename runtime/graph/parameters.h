// Parameters: the flat memory of a model's variables, gradients and optimizer slots, in the form that
// parameter_form.h describes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/graph/parameter_form.h"

namespace meshwork {

/// Where the memory comes from that is not to be the device's: zeros that the device reads and
/// writes. Without `gradients` theirs is the device's too; `shared` is needed where a group is one
/// copy or joined.
struct ParameterMemory {
  std::function<Memory(std::int64_t bytes)> gradients;
  /// The same memory for all sharers over `axes`. Every rank of the mesh calls it, for the same
  /// axes in their order.
  std::function<Memory(const std::vector<Axis>& axes, std::int64_t bytes)> shared;
};

/// The memory itself.
class Parameters {
 public:
  /// Allocates and gives every variable its initial value, keyed by `seed` and path. `slots` are
  /// the optimizer's slot names; slots start as zeros.
  Parameters(Device& device, const Plan& plan, ParameterForm form, std::uint64_t seed,
             std::vector<std::string> slots, const ParameterMemory& memory = {});

  [[nodiscard]] const ParameterForm& form() const { return form_; }
  [[nodiscard]] const std::vector<std::string>& slot_names() const { return slot_names_; }

  /// The memory of a group, on the device.
  struct Group {
    Memory values;         // its blocks, float32
    Memory joined;         // the gathered block, of which they are a part, if they are joined
    Memory narrow;         // the narrow copy of its blocks, if there is one
    Memory joined_narrow;  // and of the gathered block
    std::vector<Memory> slots;
  };
  /// For programs, which read and write it.
  [[nodiscard]] const Group& group(int index) const { return groups_[index]; }
  [[nodiscard]] float* fixed() const { return static_cast<float*>(fixed_.data()); }
  [[nodiscard]] float* gradients() const { return static_cast<float*>(gradients_.data()); }

  /// This rank's block of variable `variable`, or of a slot of it.
  [[nodiscard]] const float* value(int variable) const;
  [[nodiscard]] const float* slot(int index, int variable) const;
  /// Sets it, from the host's memory.
  void write_value(int variable, std::span<const float> block);
  void write_slot(int index, int variable, std::span<const float> block);

  /// Copies the values of all variables to two stretches in the host's memory, or back.
  void read_values(std::span<float> trainable, std::span<float> rest) const;
  void write_values(std::span<const float> trainable, std::span<const float> rest);

 private:
  void allocate_joined(const ParameterMemory& memory);
  [[nodiscard]] std::int64_t offset_in_group(const ParameterSpan& span) const;
  [[nodiscard]] std::byte* slot_at(int index, int variable) const;
  void write_in_group(int group, std::int64_t offset, std::span<const float> values);

  Device* device_;
  ParameterForm form_;
  std::vector<std::string> slot_names_;
  Memory fixed_, gradients_;
  std::vector<Group> groups_;
};

}  // namespace meshwork

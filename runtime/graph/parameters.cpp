#include "runtime/graph/parameters.h"

#include "collectives/error.h"
#include "runtime/device/philox.h"
#include "runtime/graph/initializer.h"

namespace meshwork {
namespace {

// A memory given out piece by piece, which stays while any of them does.
class StretchOfMany {
 public:
  explicit StretchOfMany(Memory memory) : memory_(std::make_shared<Memory>(std::move(memory))) {}

  static std::int64_t room_for(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

  Memory take(std::int64_t bytes) {
    Memory piece(memory_->bytes_at(taken_), bytes, [memory = memory_](void*) {});
    taken_ += room_for(bytes);
    return piece;
  }

 private:
  std::shared_ptr<Memory> memory_;
  std::int64_t taken_ = 0;
};

}  // namespace

Parameters::Parameters(Device& device, const Plan& plan, ParameterForm form, std::uint64_t seed,
                       std::vector<std::string> slots, const ParameterMemory& memory)
    : device_(&device), form_(std::move(form)), slot_names_(std::move(slots)) {
  const std::int64_t gradient_bytes = (form_.trainable_count + form_.whole_count) * 4;
  gradients_ =
      memory.gradients ? memory.gradients(gradient_bytes) : device.allocate(gradient_bytes);
  fixed_ = device.allocate(form_.fixed_count * 4);
  joined_.resize(form_.groups.size());
  values_.resize(form_.groups.size());
  slots_.resize(form_.groups.size());
  for (std::size_t g = 0; g < form_.groups.size(); ++g) {
    const ParameterGroup& group = form_.groups[g];
    if (group.joined) {
      continue;
    }
    const auto allocate = [&] {
      return group.one_copy() ? memory.shared(group.axes, group.count * 4)
                              : device.allocate(group.count * 4);
    };
    values_[g] = allocate();
    for (std::size_t i = 0; i < slot_names_.size(); ++i) {
      slots_[g].push_back(allocate());
    }
  }
  allocate_joined(memory);
  std::vector<float> host;
  for (const ParameterSpan& span : form_.spans) {
    const Variable& variable = plan.graph->variables[span.variable];
    host.assign(static_cast<std::size_t>(span.count), 0.0f);
    initialize(variable.options.initializer, variable.options.shape, span.block,
               random_key(seed, variable.path), host);
    device.copy_in(value(span.variable), host.data(), span.count * 4);
  }
}

// Over the same axes all joined blocks are in one memory, and so are their slots.
void Parameters::allocate_joined(const ParameterMemory& memory) {
  for (const std::vector<Axis>& axes : axes_of_shared_values(form_)) {
    std::vector<std::size_t> groups;
    std::int64_t gathered = 0, own = 0;  // bytes
    for (std::size_t g = 0; g < form_.groups.size(); ++g) {
      const ParameterGroup& group = form_.groups[g];
      if (group.joined && group.joined->axes == axes) {
        groups.push_back(g);
        gathered += StretchOfMany::room_for(group.joined->count * 4);
        own += StretchOfMany::room_for(group.count * 4);
      }
    }
    if (groups.empty()) {
      continue;
    }
    StretchOfMany values(memory.shared(axes, gathered));
    for (const std::size_t g : groups) {
      const ParameterGroup& group = form_.groups[g];
      joined_[g] = values.take(group.joined->count * 4);
      values_[g] = {joined_[g].bytes_at(group.joined->own_begin * 4), group.count * 4,
                    [](void*) {}};
    }
    for (std::size_t i = 0; i < slot_names_.size(); ++i) {
      StretchOfMany slots(device_->allocate(own));
      for (const std::size_t g : groups) {
        slots_[g].push_back(slots.take(form_.groups[g].count * 4));
      }
    }
  }
}

float* Parameters::joined_values(int group) const {
  return static_cast<float*>(joined_[group].data());
}

float* Parameters::group_values(int group) const {
  return static_cast<float*>(values_[group].data());
}

float* Parameters::group_slot(int index, int group) const {
  return static_cast<float*>(slots_[group][index].data());
}

float* Parameters::value(int variable) const {
  const ParameterSpan& span = form_.spans[variable];
  return span.trainable ? group_values(span.group) + (span.offset - form_.groups[span.group].offset)
                        : fixed() + span.offset;
}

float* Parameters::gradient(int variable) const {
  const ParameterSpan& span = form_.spans[variable];
  if (!span.trainable) {
    internal_error("a variable that is not trained has no gradient");
  }
  return gradients() + span.offset;
}

float* Parameters::slot(int index, int variable) const {
  const ParameterSpan& span = form_.spans[variable];
  if (!span.trainable) {
    internal_error("a variable that is not trained has no optimizer slots");
  }
  return group_slot(index, span.group) + (span.offset - form_.groups[span.group].offset);
}

void Parameters::read_values(std::span<float> trainable, std::span<float> rest) const {
  for (std::size_t g = 0; g < values_.size(); ++g) {
    const ParameterGroup& group = form_.groups[g];
    device_->copy_out(trainable.data() + group.offset, values_[g].data(), group.count * 4);
  }
  device_->copy_out(rest.data(), fixed_.data(), form_.fixed_count * 4);
}

void Parameters::write_values(std::span<const float> trainable, std::span<const float> rest) {
  for (std::size_t g = 0; g < values_.size(); ++g) {
    const ParameterGroup& group = form_.groups[g];
    device_->copy_in(values_[g].data(), trainable.data() + group.offset, group.count * 4);
  }
  device_->copy_in(fixed_.data(), rest.data(), form_.fixed_count * 4);
}

}  // namespace meshwork

#include "runtime/graph/parameters.h"

#include <algorithm>
#include <cstdint>

#include "collectives/error.h"
#include "runtime/device/narrowing.h"
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
  const std::int64_t gradient_bytes = (form_.trainable_count + form_.whole_count) * float32_bytes;
  gradients_ =
      memory.gradients ? memory.gradients(gradient_bytes) : device.allocate(gradient_bytes);
  fixed_ = device.allocate(form_.fixed_count * float32_bytes);
  groups_.resize(form_.groups.size());
  for (std::size_t g = 0; g < form_.groups.size(); ++g) {
    const ParameterGroup& group = form_.groups[g];
    if (group.joined) {
      continue;
    }
    const auto allocate = [&](std::int64_t width) {
      return group.one_copy() ? memory.shared(group.axes, group.count * width)
                              : device.allocate(group.count * width);
    };
    groups_[g].values = allocate(float32_bytes);
    if (group.narrowed) {
      groups_[g].narrow = allocate(bfloat16_bytes);
    }
    for (std::size_t i = 0; i < slot_names_.size(); ++i) {
      groups_[g].slots.push_back(allocate(float32_bytes));
    }
  }
  allocate_joined(memory);
  std::vector<float> host;
  for (const ParameterSpan& span : form_.spans) {
    const Variable& variable = plan.graph->variables[span.variable];
    host.assign(static_cast<std::size_t>(span.count), 0.0f);
    initialize(variable.options.initializer, variable.options.shape, span.block,
               random_key(seed, variable.path), host);
    write_value(span.variable, host);
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
        gathered += StretchOfMany::room_for(group.joined->count * float32_bytes);
        gathered +=
            group.narrowed ? StretchOfMany::room_for(group.joined->count * bfloat16_bytes) : 0;
        own += StretchOfMany::room_for(group.count * float32_bytes);
      }
    }
    if (groups.empty()) {
      continue;
    }
    StretchOfMany shared(memory.shared(axes, gathered));
    for (const std::size_t g : groups) {
      const ParameterGroup& group = form_.groups[g];
      const auto take = [&](Memory& joined, Memory& own_block, std::int64_t width) {
        joined = shared.take(group.joined->count * width);
        own_block = {joined.bytes_at(group.joined->own_begin * width), group.count * width,
                     [](void*) {}};
      };
      take(groups_[g].joined, groups_[g].values, float32_bytes);
      if (group.narrowed) {
        take(groups_[g].joined_narrow, groups_[g].narrow, bfloat16_bytes);
      }
    }
    for (std::size_t i = 0; i < slot_names_.size(); ++i) {
      StretchOfMany slots(device_->allocate(own));
      for (const std::size_t g : groups) {
        groups_[g].slots.push_back(slots.take(form_.groups[g].count * float32_bytes));
      }
    }
  }
}

std::int64_t Parameters::offset_in_group(const ParameterSpan& span) const {
  return span.offset - form_.groups[span.group].offset;
}

const float* Parameters::value(int variable) const {
  const ParameterSpan& span = form_.spans[variable];
  return span.trainable
             ? static_cast<const float*>(group(span.group).values.data()) + offset_in_group(span)
             : fixed() + span.offset;
}

std::byte* Parameters::slot_at(int index, int variable) const {
  const ParameterSpan& span = form_.spans[variable];
  if (!span.trainable) {
    internal_error("a variable that is not trained has no optimizer slots");
  }
  return group(span.group).slots[index].bytes_at(offset_in_group(span) * float32_bytes);
}

const float* Parameters::slot(int index, int variable) const {
  return reinterpret_cast<const float*>(slot_at(index, variable));
}

void Parameters::write_value(int variable, std::span<const float> block) {
  const ParameterSpan& span = form_.spans[variable];
  if (span.trainable) {
    write_in_group(span.group, offset_in_group(span), block);
  } else {
    device_->copy_in(fixed() + span.offset, block.data(), std::ssize(block) * float32_bytes);
  }
}

void Parameters::write_slot(int index, int variable, std::span<const float> block) {
  device_->copy_in(slot_at(index, variable), block.data(), std::ssize(block) * float32_bytes);
}

void Parameters::write_in_group(int group, std::int64_t offset, std::span<const float> values) {
  device_->copy_in(groups_[group].values.bytes_at(offset * float32_bytes), values.data(),
                   std::ssize(values) * float32_bytes);
  if (form_.groups[group].narrowed) {
    std::vector<std::uint16_t> rounded(values.size());
    std::transform(values.begin(), values.end(), rounded.begin(), narrowed);
    device_->copy_in(groups_[group].narrow.bytes_at(offset * bfloat16_bytes), rounded.data(),
                     std::ssize(rounded) * bfloat16_bytes);
  }
}

void Parameters::read_values(std::span<float> trainable, std::span<float> rest) const {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const ParameterGroup& group = form_.groups[g];
    device_->copy_out(trainable.data() + group.offset, groups_[g].values.data(),
                      group.count * float32_bytes);
  }
  device_->copy_out(rest.data(), fixed_.data(), form_.fixed_count * float32_bytes);
}

void Parameters::write_values(std::span<const float> trainable, std::span<const float> rest) {
  for (int g = 0; g < static_cast<int>(groups_.size()); ++g) {
    const ParameterGroup& group = form_.groups[g];
    write_in_group(g, 0, trainable.subspan(group.offset, group.count));
  }
  device_->copy_in(fixed_.data(), rest.data(), form_.fixed_count * float32_bytes);
}

}  // namespace meshwork

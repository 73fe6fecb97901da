#include "runtime/graph/parameters.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>

#include "collectives/error.h"
#include "runtime/device/alignment.h"
#include "runtime/device/narrowing.h"
#include "runtime/device/philox.h"
#include "runtime/graph/initializer.h"

namespace meshwork {

Parameters::Parameters(Device& device, ParameterForm form, std::vector<Slot> slots,
                       const ParameterMemory& memory)
    : device_(&device), form_(std::move(form)), slots_(std::move(slots)) {
  const std::int64_t gradient_bytes = (form_.trainable_count + form_.whole_count) * float32_bytes;
  gradients_ =
      memory.gradients ? memory.gradients(gradient_bytes) : device.allocate(gradient_bytes);
  fixed_ = device.allocate(form_.fixed_count * float32_bytes);
  allocate_groups(memory);
}

void Parameters::initialize(const Plan& plan, std::uint64_t seed) {
  std::vector<float> host;
  for (const ParameterSpan& span : form_.spans) {
    const Variable& variable = plan.graph->variables[span.variable];
    host.assign(static_cast<std::size_t>(span.count), 0.0f);
    try {
      meshwork::initialize(variable.options.initializer, variable.options.shape, span.block,
                           random_key(seed, variable.path), host);
    } catch (const Error& error) {
      fail("{}: {}", variable.path, error.what());
    }
    write(span.variable, host);
    for (int slot = 0; slot < slot_count(span.variable); ++slot) {
      if (slots_[slot].initial != 0) {
        host.assign(host.size(), slots_[slot].initial);
        write(span.variable, host, slot);
      }
    }
  }
}

// What the same ranks share is one memory, given out piece by piece, which stays while any piece
// does: there can be a group for each variable.
void Parameters::allocate_groups(const ParameterMemory& memory) {
  struct Piece {
    Memory* place;
    std::int64_t bytes;
  };
  std::map<std::vector<Axis>, std::vector<Piece>> pieces;  // by who shares them; first, nobody
  groups_.resize(form_.groups.size());
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const ParameterGroup& group = form_.groups[g];
    groups_[g].slots.resize(slots_.size());
    std::vector<Piece>& shared = pieces[group.shared_over];
    shared.push_back({&groups_[g].values, group.held * float32_bytes});
    if (group.narrowed) {
      shared.push_back({&groups_[g].narrow, group.held * bfloat16_bytes});
    }
    std::vector<Piece>& of_slots = group.home == Home::joined ? pieces[{}] : shared;
    for (Memory& slot : groups_[g].slots) {
      of_slots.push_back({&slot, group.count * float32_bytes});
    }
  }
  const auto room_for = [](std::int64_t bytes) {
    return (bytes + line_bytes - 1) / line_bytes * line_bytes;
  };
  for (const auto& [axes, all] : pieces) {
    std::int64_t bytes = 0;
    for (const Piece& piece : all) {
      bytes += room_for(piece.bytes);
    }
    const auto whole = std::make_shared<Memory>(axes.empty() ? device_->allocate(bytes)
                                                             : memory.shared(axes, bytes));
    std::int64_t taken = 0;
    for (const Piece& piece : all) {
      *piece.place = Memory(whole->bytes_at(taken), piece.bytes, [whole](void*) {});
      taken += room_for(piece.bytes);
    }
  }
}

int Parameters::slot_count(int variable) const {
  return form_.spans[variable].trainable ? static_cast<int>(slots_.size()) : 0;
}

float* Parameters::at(int variable, int slot) const {
  const ParameterSpan& span = form_.spans[variable];
  if (slot >= slot_count(variable)) {
    internal_error("a variable has no such optimizer slot");
  }
  if (!span.trainable) {
    return fixed() + span.offset;
  }
  const ParameterGroup& group = form_.groups[span.group];
  const bool is_value = slot == its_value;
  const Memory& memory = is_value ? groups_[span.group].values : groups_[span.group].slots[slot];
  return static_cast<float*>(memory.data()) +
         (is_value ? group.place(span.offset) : span.offset - group.offset);
}

void Parameters::write(int variable, std::span<const float> block, int slot) {
  const ParameterSpan& span = form_.spans[variable];
  if (span.trainable && slot == its_value) {
    write_in_group(span.group, span.offset, block);
  } else {
    device_->copy_in(at(variable, slot), block.data(), std::ssize(block) * float32_bytes);
  }
}

// From element `at` of the stretch.
void Parameters::write_in_group(int group, std::int64_t at, std::span<const float> values) {
  const std::int64_t place = form_.groups[group].place(at);
  device_->copy_in(groups_[group].values.bytes_at(place * float32_bytes), values.data(),
                   std::ssize(values) * float32_bytes);
  if (form_.groups[group].narrowed) {
    std::vector<std::uint16_t> rounded(values.size());
    std::transform(values.begin(), values.end(), rounded.begin(), narrowed);
    device_->copy_in(groups_[group].narrow.bytes_at(place * bfloat16_bytes), rounded.data(),
                     std::ssize(rounded) * bfloat16_bytes);
  }
}

void Parameters::read_values(std::span<float> trainable, std::span<float> rest) const {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const ParameterGroup& group = form_.groups[g];
    device_->copy_out(trainable.data() + group.offset,
                      groups_[g].values.bytes_at(group.own_begin * float32_bytes),
                      group.count * float32_bytes);
  }
  device_->copy_out(rest.data(), fixed_.data(), form_.fixed_count * float32_bytes);
}

std::vector<float> Parameters::read_updated(int slot, std::span<const float> otherwise) const {
  std::vector<float> values(otherwise.begin(), otherwise.end());
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const ParameterGroup& group = form_.groups[g];
    if (group.updated) {
      device_->copy_out(values.data() + group.offset, groups_[g].slots[slot].data(),
                        group.count * float32_bytes);
    }
  }
  return values;
}

void Parameters::write_slot(int slot, std::span<const float> trainable) {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const ParameterGroup& group = form_.groups[g];
    device_->copy_in(groups_[g].slots[slot].data(), trainable.data() + group.offset,
                     group.count * float32_bytes);
  }
}

void Parameters::write_values(std::span<const float> trainable, std::span<const float> rest) {
  for (int g = 0; g < static_cast<int>(groups_.size()); ++g) {
    const ParameterGroup& group = form_.groups[g];
    write_in_group(g, group.offset, trainable.subspan(group.offset, group.count));
  }
  device_->copy_in(fixed_.data(), rest.data(), form_.fixed_count * float32_bytes);
}

}  // namespace meshwork

#include "runtime/device/program.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <numeric>
#include <utility>

#include "collectives/calls.h"
#include "collectives/error.h"
#include "runtime/device/kernel_candidates.h"
#include "runtime/device/kernel_joins.h"

namespace meshwork {

namespace {

constexpr std::int64_t alignment = 64;

constexpr std::int64_t aligned(std::int64_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

// ---- Program ----------------------------------------------------------------------------------

void Program::run() {
  if (instructions_.empty()) return;
  device_->make_current();
  const bool advances = has_calls_to_advance();
  if (!measured_.seconds.empty()) {
    run_measured();
    if (advances) (void)advance_calls();  // whose time would be an instruction's
  } else if (advances) {
    walk(prepared(), [this](std::size_t) {
      if (advance_calls()) device_->make_current();  // a function may have used another
    });
  } else {
    walk(prepared(), [](std::size_t) {});
  }
}

void Program::run_measured() {
  if (!marks_.empty()) {
    Queue& kernels = device_->queues().kernels();
    kernels.record(*marks_.front());
    walk(instructions_, [&](std::size_t instruction) { kernels.record(*marks_[instruction + 1]); });
    marks_.back()->wait();
    for (std::size_t i = 0; i < instructions_.size(); ++i) {
      measured_.seconds[i] += marks_[i + 1]->seconds_since(*marks_[i]);
    }
  } else {
    using Clock = std::chrono::steady_clock;
    Clock::time_point last = Clock::now();
    walk(instructions_, [&](std::size_t instruction) {
      const Clock::time_point now = Clock::now();
      measured_.seconds[instruction] += std::chrono::duration<double>(now - last).count();
      last = now;
    });
  }
  ++measured_.runs;
}

void Program::measure() {
  measured_ = {0, std::vector<double>(instructions_.size(), 0.0)};
  if (instructions_.empty() || device_->traits().computes_in_host_memory || !marks_.empty()) return;
  for (std::size_t i = 0; i <= instructions_.size(); ++i) {
    marks_.push_back(device_->queues().make_mark(true));
  }
}

void Program::stop_measuring() {
  measured_ = {};
  marks_.clear();
}

const std::vector<Program::Instruction>& Program::prepared() {
  if (!captures_) return instructions_;
  if (captured_bound_ != binding_->bound) {
    // The first run on new addresses is as it was written: what a library does once, it does there.
    release_captured();
    captured_bound_ = binding_->bound;
    return instructions_;
  }
  if (captured_.empty()) make_pieces();
  return captured_;
}

void Program::release_captured() {
  captured_.clear();
  pieces_.clear();
  captured_bound_ = -1;
}

void Program::make_pieces() {
  std::vector<PieceInstruction> all;
  for (std::size_t i = 0; i < instructions_.size(); ++i) {
    const Instruction& one = instructions_[i];
    all.push_back({one.kernel, one.operands, one.label, works_[i].has_value()});
  }
  for (const PieceRange& piece : pieces_of(all)) {
    if (!piece.captured) {
      captured_.push_back(instructions_[piece.begin]);
      continue;
    }
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(piece.begin);
    const auto end = all.begin() + static_cast<std::ptrdiff_t>(piece.end);
    pieces_.push_back(
        std::make_unique<CapturedPiece>(*device_, std::vector(begin, end), on_all_ranks_));
    const std::string& label = pieces_.back()->label();
    captured_.push_back(
        {pieces_.back().get(), nullptr, trace_ != nullptr ? trace_->label(label) : &label});
  }
}

template <class AfterEach>
void Program::walk(const std::vector<Instruction>& instructions, const AfterEach& after_each) {
  const Instruction* const first = instructions.data();
  const Instruction* const end = first + instructions.size();
  const Instruction* instruction = first;
  const std::string* before = activity_->load(std::memory_order_relaxed);
  try {
    for (; instruction != end; ++instruction) {
      activity_->store(instruction->label, std::memory_order_release);
      instruction->kernel->run(instruction->operands);
      after_each(static_cast<std::size_t>(instruction - first));
    }
  } catch (const std::exception&) {
    activity_->store(before, std::memory_order_relaxed);
    rethrow_from(*instruction->label);
  }
  activity_->store(before, std::memory_order_relaxed);
}

void Program::record_in(CollectiveTrace& trace) {
  for (Instruction& instruction : instructions_) {
    instruction.label = trace.label(*instruction.label);
  }
  release_captured();
  trace_ = &trace;
  activity_ = &trace.activity();
}

std::size_t Program::beginning_of(std::size_t instruction) const {
  const Kernel* const begun_by = kernels_[instruction]->begun_by();
  const auto found = std::find_if(kernels_.begin(), kernels_.end(),
                                  [&](const auto& kernel) { return kernel.get() == begun_by; });
  return found == kernels_.end() ? instruction : static_cast<std::size_t>(found - kernels_.begin());
}

void* Program::address(Buffer buffer) const {
  const auto index = static_cast<std::size_t>(buffer.id);
  if (!buffer.exists() || !binding_ || index >= binding_->buffers.size()) {
    internal_error(
        fmt::format("a program was asked for buffer {}, which it does not have", buffer.id));
  }
  if (!binding_->has_address[index]) {
    internal_error(fmt::format(
        "a program was asked for buffer {}, which is neither kept nor preset", buffer.id));
  }
  return binding_->buffers[index];
}

const float* Program::at(const Observation::Stretch& stretch) const {
  return reinterpret_cast<const float*>(arena_->bytes_at(stretch.offset));
}

void Program::Binding::bind(std::byte* arena) {
  for (const Reference& reference : operands_in_arena) {
    operands[reference.index] = arena + reference.offset;
  }
  for (const Reference& reference : buffers_in_arena) {
    buffers[reference.index] = arena + reference.offset;
  }
  ++bound;
}

// ---- ArenaPool --------------------------------------------------------------------------------

ArenaPool::ArenaPool(Device& device) : device_(&device), memory_(std::make_shared<Memory>()) {}

void ArenaPool::add(Program& program) {
  std::erase_if(bindings_, [](const auto& binding) { return binding.expired(); });
  bindings_.push_back(program.binding_);
  program.arena_ = memory_;
  const auto bind_all = [&] {
    for (const auto& binding : bindings_) binding.lock()->bind(memory_->bytes_at(0));
  };
  const std::int64_t before = memory_->bytes();
  if (program.summary_.bytes > before) {
    *memory_ = {};  // first: a device may not have room for both
    try {
      *memory_ = device_->allocate(program.summary_.bytes);
    } catch (...) {
      bindings_.pop_back();
      *memory_ = device_->allocate(before);  // the programs that there were stay valid
      bind_all();
      throw;
    }
  }
  bind_all();
}

// ---- ProgramBuilder: booking ------------------------------------------------------------------

ProgramBuilder::Booking& ProgramBuilder::booking_of(Buffer buffer, std::string_view what) {
  const auto index = static_cast<std::size_t>(buffer.id);
  if (!buffer.exists() || index >= buffers_.size()) {
    internal_error(fmt::format("{} names buffer {} of a builder that has {}", what, buffer.id,
                               buffers_.size()));
  }
  return buffers_[index];
}

Buffer ProgramBuilder::scratch(std::int64_t bytes, std::string label) {
  if (bytes < 0) internal_error(fmt::format("{}: a buffer of {} bytes", label, bytes));
  buffers_.push_back({.bytes = bytes, .label = std::move(label)});
  return {static_cast<int>(buffers_.size()) - 1};
}

Buffer ProgramBuilder::external(void* data, std::int64_t bytes, std::string label) {
  if (bytes < 0 || (data == nullptr && bytes > 0 && device_ != nullptr)) {
    internal_error(fmt::format("{}: no memory for {} bytes", label, bytes));
  }
  buffers_.push_back(
      {.bytes = bytes, .external = data, .label = std::move(label), .in_arena = false});
  return {static_cast<int>(buffers_.size()) - 1};
}

void ProgramBuilder::keep(Buffer buffer) {
  booking_of(buffer, "keep").kept = true;
}

void ProgramBuilder::preset(Buffer buffer) {
  booking_of(buffer, "preset").preset = true;
}

void ProgramBuilder::observe(Buffer buffer) {
  booking_of(buffer, "observe").observed = true;
}

void ProgramBuilder::emit(std::unique_ptr<Kernel> kernel, std::vector<Operand> operands,
                          std::string label, std::optional<KernelWork> work) {
  for (const Operand& operand : operands) {
    const Booking& booking = booking_of(operand.buffer, label);
    if (operand.offset < 0 || operand.offset > booking.bytes) {
      internal_error(fmt::format("{}: an operand lies {} bytes into {}, which has {}", label,
                                 operand.offset, booking.label, booking.bytes));
    }
  }
  if (const std::int64_t bytes = kernel ? kernel->workspace_bytes() : 0; bytes > 0) {
    operands.emplace_back(scratch(bytes, label + " workspace"));
  }
  entries_.push_back({std::move(kernel), std::move(operands), std::move(label), work});
  last_.reset();
}

void ProgramBuilder::emit(const KernelSpec& spec, std::vector<Operand> operands,
                          const std::string& label) {
  if (last_) {
    std::optional<BookedKernel> both = joined({last_->spec, last_->operands}, {spec, operands});
    if (both) {
      const std::string labels = fmt::format("{}+{}", last_->label, label);
      entries_.pop_back();
      if (specs_ != nullptr) specs_->pop_back();
      last_.reset();
      emit(both->spec, std::move(both->operands), labels);
      return;
    }
  }
  std::string full_label = fmt::format("{}: {}", label, spec.text());
  std::unique_ptr<Kernel> kernel;
  if (specs_ != nullptr) specs_->push_back(spec);
  try {
    if (const std::string* name = chosen_ != nullptr ? chosen_->find(spec) : nullptr) {
      full_label += fmt::format(" by {}", *name);
      kernel = compile_candidate(*device_, spec, *name);
    } else if (device_ != nullptr) {
      kernel = device_->compile(spec);
    }
  } catch (const std::exception& error) {
    throw Error(fmt::format("{}: {}", full_label, error.what()));
  }
  InPlace in_place = spec.in_place();
  if (in_place.output < 0) in_place.output = static_cast<int>(operands.size()) - 1;
  emit(std::move(kernel), operands, full_label, spec.work());
  entries_.back().in_place = std::move(in_place);
  last_ = Emitted{spec, std::move(operands), label};
  if (!make_follower_) return;
  if (std::unique_ptr<Kernel> follower = make_follower_()) {
    emit(std::move(follower), {}, follower_label_);
  }
}

void ProgramBuilder::follow_kernels(std::function<std::unique_ptr<Kernel>()> make,
                                    std::string label) {
  make_follower_ = std::move(make);
  follower_label_ = std::move(label);
}

// ---- ProgramBuilder: planning -----------------------------------------------------------------

void ProgramBuilder::find_lifetimes() {
  const int count = static_cast<int>(entries_.size());
  for (Booking& booking : buffers_) {
    booking.first = count;
    booking.last = -1;
    booking.taken_by = -1;
  }
  for (int i = 0; i < count; ++i) {
    for (const Operand& operand : entries_[static_cast<std::size_t>(i)].operands) {
      Booking& booking = buffers_[static_cast<std::size_t>(operand.buffer.id)];
      booking.first = std::min(booking.first, i);
      booking.last = i;
    }
  }
  for (Booking& booking : buffers_) {
    // One that is kept but named by no instruction is there for others, all the time.
    if (booking.preset || (booking.kept && booking.last < 0)) booking.first = -1;
    if (booking.kept) booking.last = count;
  }
}

// A result is written first, and the input read last, by the kernel that may do so. They are as large, and
// the kernel names each of them once, from its beginning.
void ProgramBuilder::find_heirs() {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const auto& [kernel, operands, label, work, in_place] = entries_[i];
    if (in_place.inputs.empty()) continue;
    const auto now = static_cast<int>(i);
    const auto names_whole = [&](int operand) {
      const auto& [buffer, offset] = operands[static_cast<std::size_t>(operand)];
      const auto is_it = [&](const Operand& other) { return other.buffer == buffer; };
      return offset == 0 && std::ranges::count_if(operands, is_it) == 1;
    };
    const auto booked = [&](int operand) -> Booking& {
      return booking_of(operands[static_cast<std::size_t>(operand)].buffer, label);
    };
    const Booking& result = booked(in_place.output);
    if (!result.in_arena || result.first != now || !names_whole(in_place.output)) continue;
    for (const int input : in_place.inputs) {
      if (input == in_place.output) continue;
      Booking& read = booked(input);
      if (read.in_arena && read.last == now && read.bytes == result.bytes && names_whole(input)) {
        read.taken_by = operands[static_cast<std::size_t>(in_place.output)].buffer.id;
        break;
      }
    }
  }
}

// First fit, largest first: each buffer, in order of falling size, takes the lowest gap between the
// buffers already placed whose lifetimes meet its own. Equal sizes go in the order of booking, so
// that the same program always gets the same arena.
ArenaSummary ProgramBuilder::place_stretches() {
  std::vector<bool> takes_over(buffers_.size(), false);
  for (const Booking& booking : buffers_) {
    if (booking.taken_by >= 0) takes_over[static_cast<std::size_t>(booking.taken_by)] = true;
  }
  ArenaSummary summary;
  struct Stretch {
    int first, last;  // instructions
    std::int64_t bytes, offset;
    std::vector<Booking*> buffers;
  };
  std::vector<Stretch> order;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    Booking& first = buffers_[i];
    if (!first.in_arena || first.bytes == 0 || first.first > first.last || takes_over[i]) continue;
    Stretch& stretch = order.emplace_back(first.first, first.last, first.bytes, 0);
    for (Booking* booking = &first;;) {
      stretch.buffers.push_back(booking);
      stretch.last = booking->last;
      summary.bytes_if_unshared += aligned(booking->bytes);
      if (booking->taken_by < 0) break;
      booking = &buffers_[static_cast<std::size_t>(booking->taken_by)];
    }
  }
  std::ranges::stable_sort(order, std::greater(), &Stretch::bytes);
  std::vector<const Stretch*> placed;  // by offset
  for (Stretch& stretch : order) {
    std::int64_t& offset = stretch.offset;
    for (const Stretch* other : placed) {
      if (other->last < stretch.first || stretch.last < other->first) continue;
      if (offset + stretch.bytes <= other->offset) break;
      offset = std::max(offset, aligned(other->offset + other->bytes));
    }
    for (Booking* booking : stretch.buffers) booking->offset = offset;
    placed.insert(std::ranges::upper_bound(placed, offset, {}, &Stretch::offset), &stretch);
    summary.bytes = std::max(summary.bytes, aligned(offset + stretch.bytes));
  }
  return summary;
}

// What lives longer leaves other gaps, which first fit fills better or worse.
ArenaSummary ProgramBuilder::place() {
  const ArenaSummary apart = place_stretches();
  const std::vector<Booking> placed_apart = buffers_;
  find_heirs();
  const ArenaSummary joined = place_stretches();
  if (joined.bytes <= apart.bytes) return joined;
  buffers_ = placed_apart;
  return apart;
}

// Of each observed buffer, what no buffer of a later lifetime lies on.
std::vector<Observation> ProgramBuilder::observations() const {
  constexpr std::int64_t size = sizeof(float);
  std::vector<Observation> found;
  for (const Booking& booking : buffers_) {
    if (!booking.observed || !booking.in_arena || booking.bytes == 0 ||
        booking.first > booking.last) {
      continue;
    }
    std::vector<std::pair<std::int64_t, std::int64_t>> taken;  // bytes of the arena
    for (const Booking& other : buffers_) {
      if (other.in_arena && other.first <= other.last && &other != &booking &&
          other.first >= booking.last && other.offset < booking.offset + booking.bytes &&
          booking.offset < other.offset + other.bytes) {
        taken.emplace_back(other.offset, other.offset + other.bytes);
      }
    }
    std::sort(taken.begin(), taken.end());
    Observation observation{booking.label,
                            static_cast<std::size_t>(std::max(booking.first, 0)),
                            booking.bytes / size,
                            {}};
    const std::int64_t end = booking.offset + booking.bytes;
    std::int64_t at = booking.offset;
    taken.emplace_back(end, end);
    for (const auto& [begin_of_other, end_of_other] : taken) {
      if (const std::int64_t count = (std::min(begin_of_other, end) - at) / size; count > 0) {
        observation.still_there.push_back({at, count});
      }
      at = std::max(at, aligned(end_of_other));
    }
    found.push_back(std::move(observation));
  }
  std::stable_sort(found.begin(), found.end(), [](const Observation& a, const Observation& b) {
    return a.instruction < b.instruction;
  });
  return found;
}

// ---- ProgramBuilder: binding ------------------------------------------------------------------

ArenaSummary ProgramBuilder::plan_arena() {
  find_lifetimes();
  return place();
}

Program ProgramBuilder::assemble() {
  find_lifetimes();
  Program program;
  program.device_ = device_;
  program.captures_ = !device_->traits().computes_in_host_memory;
  program.summary_ = place();
  program.observations_ = observations();
  program.binding_ = std::make_shared<Program::Binding>();
  Program::Binding& binding = *program.binding_;

  binding.buffers.resize(buffers_.size(), nullptr);
  binding.has_address.resize(buffers_.size(), false);
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const Booking& booking = buffers_[i];
    if (!booking.in_arena) {
      binding.buffers[i] = booking.external;
    } else if (booking.kept || booking.preset) {
      binding.buffers_in_arena.push_back({i, booking.offset});
    } else {
      continue;
    }
    binding.has_address[i] = true;
  }

  std::size_t operand_count = 0;
  for (const Entry& entry : entries_) operand_count += entry.operands.size();
  binding.operands.resize(operand_count, nullptr);
  std::size_t next = 0;
  for (Entry& entry : entries_) {
    program.instructions_.push_back({entry.kernel.get(), binding.operands.data() + next, nullptr});
    for (const Operand& operand : entry.operands) {
      const Booking& booking = buffers_[static_cast<std::size_t>(operand.buffer.id)];
      if (booking.in_arena) {
        binding.operands_in_arena.push_back({next, booking.offset + operand.offset});
      } else if (booking.external != nullptr) {
        binding.operands[next] = static_cast<std::byte*>(booking.external) + operand.offset;
      }
      ++next;
    }
    program.kernels_.push_back(std::move(entry.kernel));
    program.labels_.push_back(std::move(entry.label));
    program.works_.push_back(entry.work);
  }
  for (std::size_t i = 0; i < program.instructions_.size(); ++i) {
    program.instructions_[i].label = &program.labels_[i];
  }
  program.unread_ = std::make_unique<std::atomic<const std::string*>>(nullptr);
  program.activity_ = program.unread_.get();
  buffers_.clear();
  entries_.clear();
  follow_kernels();
  return program;
}

Program ProgramBuilder::finish() {
  if (device_ == nullptr) internal_error("a builder that only plans was asked for a program");
  Program program = assemble();
  program.arena_ = std::make_shared<Memory>(device_->allocate(program.summary_.bytes));
  program.binding_->bind(program.arena_->bytes_at(0));
  return program;
}

Program ProgramBuilder::finish(ArenaPool& pool) {
  if (&pool.device() != device_) {
    internal_error("a program was finished in the arena pool of another device");
  }
  Program program = assemble();
  pool.add(program);
  return program;
}

}  // namespace meshwork

#include "runtime/device/captured_piece.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <utility>

#include "collectives/error.h"

namespace meshwork {

std::vector<PieceRange> pieces_of(std::span<const PieceInstruction> instructions) {
  const std::size_t count = instructions.size();
  std::vector<bool> captured(count);
  std::map<const Kernel*, std::size_t> place;
  for (std::size_t i = 0; i < count; ++i) {
    captured[i] = instructions[i].of_device || instructions[i].kernel->is_enqueued();
    place[instructions[i].kernel] = i;
  }
  // What one cut takes out may cut others.
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t end = 0; end < count; ++end) {
      const auto begun = place.find(instructions[end].kernel->begun_by());
      if (begun == place.end()) continue;
      bool whole = true;
      for (std::size_t i = begun->second; i <= end; ++i) whole = whole && captured[i];
      for (std::size_t i = begun->second; i <= end && !whole; ++i) {
        if (instructions[i].of_device || !captured[i]) continue;
        captured[i] = false;
        changed = true;
      }
    }
  }
  std::vector<PieceRange> pieces;
  for (std::size_t begin = 0, end = 0; begin < count; begin = end) {
    end = begin + 1;
    while (captured[begin] && end < count && captured[end]) ++end;
    const bool alone = end - begin == 1 && instructions[begin].of_device;
    pieces.push_back({begin, end, captured[begin] && !alone});
  }
  return pieces;
}

CapturedPiece::CapturedPiece(Device& device, std::vector<PieceInstruction> instructions,
                             OnAllRanks on_all_ranks)
    : device_(device),
      instructions_(std::move(instructions)),
      on_all_ranks_(std::move(on_all_ranks)) {
  for (const PieceInstruction& one : instructions_) {
    if (!one.of_device) noting_.push_back(one.kernel);
  }
  label_ = *instructions_.front().label;
  if (instructions_.size() > 1) {
    label_ = fmt::format("from {} to {}", label_, *instructions_.back().label);
  }
}

void CapturedPiece::run(void* const* /*operands*/) {
  if (!tried_) capture();
  if (work_ == nullptr) {
    for (const PieceInstruction& one : instructions_) one.kernel->run(one.operands);
    return;
  }
  for (Kernel* kernel : noting_) kernel->note_start();
  work_->start();
}

void CapturedPiece::capture() {
  const PieceInstruction* at = instructions_.data();
  std::string problem;
  try {
    work_ = device_.queues().capture([&] { run_all(at); });
  } catch (const std::exception& error) {
    const bool at_end = at == instructions_.data() + instructions_.size();
    problem = at_end ? error.what() : fmt::format("{}: {}", *at->label, error.what());
  }
  // Before anything is started: other ranks would be left alone with theirs.
  if (!noting_.empty() && !on_all_ranks_(work_ != nullptr) && work_ != nullptr) {
    problem = "not on all ranks";
    work_.reset();
  }
  if (!problem.empty()) {
    fmt::print(stderr, "{} cannot be captured, its kernels are started one by one: {}\n", label_,
               problem);
  }
  tried_ = true;
}

// What was started is ended, also where an error ends it all: it would be under way for ever.
void CapturedPiece::run_all(const PieceInstruction*& at) {
  const PieceInstruction* const begin = instructions_.data();
  const PieceInstruction* const end = begin + instructions_.size();
  try {
    for (; at != end; ++at) at->kernel->run(at->operands);
  } catch (...) {
    for (const PieceInstruction* rest = at + 1; rest < end; ++rest) {
      const bool begun = std::any_of(begin, at, [&](const PieceInstruction& one) {
        return one.kernel == rest->kernel->begun_by();
      });
      if (!begun) continue;
      try {
        rest->kernel->run(rest->operands);
      } catch (const std::exception&) {  // the first error says what is wrong
      }
    }
    throw;
  }
}

}  // namespace meshwork

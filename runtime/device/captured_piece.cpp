#include "runtime/device/captured_piece.h"

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

CapturedPiece::CapturedPiece(Device& device, std::vector<PieceInstruction> instructions)
    : device_(device), instructions_(std::move(instructions)) {
  for (const PieceInstruction& one : instructions_) {
    if (!one.of_device) noting_.push_back(one.kernel);
  }
  label_ = *instructions_.front().label;
  if (instructions_.size() > 1) {
    label_ = fmt::format("from {} to {}", label_, *instructions_.back().label);
  }
}

void CapturedPiece::run(void* const* /*operands*/) {
  if (!tried_) {
    capture();
  } else {
    for (Kernel* kernel : noting_) kernel->note_repeated();
  }
  if (work_ != nullptr) {
    work_->start();
  } else {
    for (const PieceInstruction& one : instructions_) one.kernel->run(one.operands);
  }
}

// While they are captured the kernels note what they start, which stands for the first start.
void CapturedPiece::capture() {
  const PieceInstruction* at = instructions_.data();
  try {
    work_ = device_.queues().capture([&] {
      for (const PieceInstruction& one : instructions_) {
        at = &one;
        one.kernel->run(one.operands);
      }
    });
  } catch (const std::exception& error) {
    const std::string what = fmt::format("{}: {}", *at->label, error.what());
    // Other ranks would be left alone with theirs.
    if (!noting_.empty()) throw Error(what);
    fmt::print(stderr, "{}; {} is not captured, its kernels are started one by one\n", what,
               label_);
  }
  tried_ = true;
  if (work_ == nullptr) noting_.clear();
}

}  // namespace meshwork

// Pieces of a program: consecutive instructions that are captured and so become one.
//
// Captured is what is enqueued (Kernel::is_enqueued): the kernels of the device, and collectives
// which the device works off on its own. A step all of whose collectives are such is one piece; one
// that the host has a part in cuts.
//
// Ranks can start a captured collective again only together, so what is captured has to be the same
// on all of them. It follows from the collectives alone, which the ranks have agreed on; kernels,
// which may differ, cut nothing. A collective that is started and waited for is captured with both
// ends or not at all, and if not, then neither is a collective between these: all that are under
// way at once lie in one queue, in the order of the program.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/device/device.h"

namespace meshwork {

/// A kernel of a program, and what it runs on.
struct PieceInstruction {
  Kernel* kernel = nullptr;
  void* const* operands = nullptr;
  const std::string* label = nullptr;
  bool of_device = false;  // compiled by the device
};

/// Instructions [begin, end).
struct PieceRange {
  std::size_t begin = 0, end = 0;
  bool captured = false;  // else it is one instruction
  bool operator==(const PieceRange&) const = default;
};

/// What a run consists of, in order. A single kernel of the device costs no less captured.
[[nodiscard]] std::vector<PieceRange> pieces_of(std::span<const PieceInstruction> instructions);

/// Whether something went well on all ranks, which all call it; here it went as `here` says.
using OnAllRanks = std::function<bool(bool here)>;

/// The instructions as one, which is captured when it runs for the first time. On a device that
/// gains nothing by capturing, they run one after the other; so they do, which is said, where they
/// cannot be captured: with a collective among them, on all ranks if on one.
class CapturedPiece final : public Kernel {
 public:
  CapturedPiece(
      Device& device, std::vector<PieceInstruction> instructions,
      OnAllRanks on_all_ranks = [](bool here) { return here; });
  void run(void* const* operands) override;
  /// "from LABEL to LABEL".
  [[nodiscard]] const std::string& label() const { return label_; }

 private:
  void capture();
  void run_all(const PieceInstruction*& at);

  Device& device_;
  std::vector<PieceInstruction> instructions_;
  std::vector<Kernel*> noting_;  // those that the host has to know of
  OnAllRanks on_all_ranks_;
  std::string label_;
  std::unique_ptr<CapturedWork> work_;
  bool tried_ = false;
};

}  // namespace meshwork

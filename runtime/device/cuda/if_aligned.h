// A kernel of a library for operands at multiples of 16, which it may load four at a time, and one of our own for
// others. A program's arena is aligned to 64 bytes; packed parameters are not.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/device/device.h"

namespace meshwork::cuda {

/// What fast algorithms want addresses to be multiples of.
constexpr std::uint32_t good_alignment = 16;

[[nodiscard]] inline bool is_aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % good_alignment == 0;
}

class IfAligned final : public Kernel {
 public:
  /// `asked`: the operands that `aligned` wants at multiples of 16.
  IfAligned(KernelPointer aligned, KernelPointer otherwise, std::vector<std::size_t> asked)
      : aligned_(std::move(aligned)), otherwise_(std::move(otherwise)), asked_(std::move(asked)) {}

  void run(void* const* operands) override {
    const bool all = std::all_of(asked_.begin(), asked_.end(),
                                 [&](std::size_t i) { return is_aligned(operands[i]); });
    (all ? aligned_ : otherwise_)->run(operands);
  }
  [[nodiscard]] std::int64_t workspace_bytes() const override {
    return std::max(aligned_->workspace_bytes(), otherwise_->workspace_bytes());
  }

 private:
  KernelPointer aligned_, otherwise_;
  std::vector<std::size_t> asked_;
};

}  // namespace meshwork::cuda

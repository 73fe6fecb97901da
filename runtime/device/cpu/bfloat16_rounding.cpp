#include "runtime/device/cpu/bfloat16_rounding.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <utility>

#include "collectives/error.h"
#include "runtime/device/cpu/loops.h"

namespace meshwork::cpu {

namespace {

class WithRoundedInputs final : public Kernel {
 public:
  WithRoundedInputs(KernelPointer kernel, int operand_count, std::array<std::int64_t, 2> counts,
                    int threads)
      : kernel_(std::move(kernel)),
        operand_count_(operand_count),
        counts_(counts),
        threads_(threads) {
    if (operand_count_ + 1 > most_operands) {
      internal_error("a kernel with too many operands to round two of them");
    }
  }

  void run(void* const* operands) override {
    std::array<void*, most_operands> list{};
    std::copy_n(operands, operand_count_, list.begin());
    auto* free = static_cast<std::byte*>(operands[operand_count_]);
    for (int i = 0; i < 2; ++i) {
      const float* from = at(operands, i);
      auto* to = reinterpret_cast<float*>(free);
      for_ranges(threads_, counts_[i], 8, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t e = begin; e < end; ++e) to[e] = rounded_to_bfloat16(from[e]);
      });
      list[i] = to;
      free += bytes_of(counts_[i]);
    }
    list[operand_count_] = free;
    kernel_->run(list.data());
  }

  [[nodiscard]] std::int64_t workspace_bytes() const override {
    return bytes_of(counts_[0]) + bytes_of(counts_[1]) + kernel_->workspace_bytes();
  }

 private:
  static constexpr int most_operands = 5;
  static std::int64_t bytes_of(std::int64_t count) { return (count * 4 + 63) / 64 * 64; }

  KernelPointer kernel_;
  int operand_count_;
  std::array<std::int64_t, 2> counts_;
  int threads_;
};

}  // namespace

float rounded_to_bfloat16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t to_even = bits + 0x7fffU + ((bits >> 16) & 1U);
  const std::uint32_t quiet = bits | 0x400000U;  // a NaN whose upper half is not that of infinity
  const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return std::bit_cast<float>((nan ? quiet : to_even) & 0xffff0000U);
}

KernelPointer with_rounded_inputs(KernelPointer kernel, int operand_count, std::int64_t first_count,
                                  std::int64_t second_count, const Context& context) {
  return std::make_unique<WithRoundedInputs>(
      std::move(kernel), operand_count, std::array{first_count, second_count}, context.threads);
}

}  // namespace meshwork::cpu

#include "runtime/device/cuda/narrow_inputs.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "runtime/device/cuda/workspace.h"
#include "runtime/device/kernels/elementwise.h"

namespace meshwork::cuda {

namespace {

/// The workspace: the first operand, the second one, what the product wants.
class WithNarrowInputs final : public Kernel {
 public:
  WithNarrowInputs(KernelPointer kernel, int operand_count, std::array<std::int64_t, 2> counts,
                   const Context& context)
      : kernel_(std::move(kernel)), operand_count_(operand_count) {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      narrow_[i] = compile(NarrowSpec{counts[i]}, context);
      bytes_[i] = rounded_up(counts[i] * 2);
    }
  }

  void run(void* const* operands) override {
    std::array<void*, most_operands> list{};
    std::copy_n(operands, operand_count_, list.begin());
    std::byte* place = aligned_workspace(operands[operand_count_]);
    for (std::size_t i = 0; i < narrow_.size(); ++i) {
      const std::array<void*, 2> in_and_out{operands[i], place};
      narrow_[i]->run(in_and_out.data());
      list[i] = place;
      place += bytes_[i];
    }
    list[static_cast<std::size_t>(operand_count_)] = place;
    kernel_->run(list.data());
  }

  [[nodiscard]] std::int64_t workspace_bytes() const override {
    return with_alignment(bytes_[0] + bytes_[1] + kernel_->workspace_bytes());
  }

 private:
  static constexpr std::size_t most_operands = 6;
  KernelPointer kernel_;
  int operand_count_;
  std::array<KernelPointer, 2> narrow_;
  std::array<std::int64_t, 2> bytes_{};
};

}  // namespace

KernelPointer with_narrow_inputs(KernelPointer kernel, int operand_count, std::int64_t first_count,
                                 std::int64_t second_count, const Context& context) {
  return std::make_unique<WithNarrowInputs>(std::move(kernel), operand_count,
                                            std::array{first_count, second_count}, context);
}

}  // namespace meshwork::cuda

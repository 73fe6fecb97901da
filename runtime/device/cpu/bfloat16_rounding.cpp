#include "runtime/device/cpu/bfloat16_rounding.h"
#include "runtime/device/kernels/elementwise.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "collectives/error.h"
#include "runtime/device/cpu/bfloat16_instructions.h"
#include "runtime/device/cpu/dnnl_version.h"
#include "runtime/device/cpu/loops.h"
#include "runtime/device/cpu/primitive.h"
#include "runtime/device/narrowing.h"

namespace meshwork::cpu {

namespace {

/// `From` is float, or bfloat16's bits.
template <class From>
class InFloats final : public Kernel {
 public:
  InFloats(KernelPointer kernel, int operand_count, std::array<std::int64_t, 2> counts, int threads)
      : kernel_(std::move(kernel)),
        operand_count_(operand_count),
        counts_(counts),
        threads_(threads) {
    if (operand_count_ + 1 > most_operands) {
      internal_error("a kernel with too many operands to convert two of them");
    }
  }

  void run(void* const* operands) override {
    std::array<void*, most_operands> list{};
    std::copy_n(operands, operand_count_, list.begin());
    auto* free = static_cast<std::byte*>(operands[operand_count_]);
    for (int i = 0; i < 2; ++i) {
      const From* from = at<const From>(operands, i);
      auto* to = reinterpret_cast<float*>(free);
      for_ranges(threads_, counts_[i], 8, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t e = begin; e < end; ++e) to[e] = as_float(from[e]);
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
  static constexpr int most_operands = 6;
  static float as_float(float x) { return rounded_to_bfloat16(x); }
  static float as_float(std::uint16_t x) { return widened(x); }
  static std::int64_t bytes_of(std::int64_t count) { return (count * 4 + 63) / 64 * 64; }

  KernelPointer kernel_;
  int operand_count_;
  std::array<std::int64_t, 2> counts_;
  int threads_;
};

/// oneDNN's reordering, which takes the processor's instructions.
Primitive narrowing(const NarrowSpec& spec) {
  using dnnl::memory;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const memory::desc wide({spec.count}, memory::data_type::f32, memory::dims{1});
  const memory::desc narrow({spec.count}, memory::data_type::bf16, memory::dims{1});
  const dnnl::reorder::primitive_desc description(engine, wide, engine, narrow);
  Primitive primitive(spec.text(), engine, dnnl::reorder(description));
  primitive.add(DNNL_ARG_FROM, wide);
  primitive.add(DNNL_ARG_TO, narrow);
  return primitive;
}

KernelPointer compile(const NarrowSpec& spec, const Context& context) {
  if (spec.count > 0 && uses_bfloat16_instructions()) {
    return make_kernel([primitive = narrowing(spec)](void* const* operands) mutable {
      primitive.run({operands[0], operands[1]});
    });
  }
  return make_kernel([=, threads = context.threads](void* const* operands) {
    const float* x = at(operands, 0);
    std::uint16_t* y = at<std::uint16_t>(operands, 1);
    for_ranges(threads, spec.count, 6, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) y[i] = narrowed(x[i]);
    });
  });
}

}  // namespace

KernelPointer with_rounded_inputs(KernelPointer kernel, int operand_count, std::int64_t first_count,
                                  std::int64_t second_count, const Context& context) {
  return std::make_unique<InFloats<float>>(std::move(kernel), operand_count,
                                           std::array{first_count, second_count}, context.threads);
}

KernelPointer with_widened_inputs(KernelPointer kernel, int operand_count, std::int64_t first_count,
                                  std::int64_t second_count, const Context& context) {
  return std::make_unique<InFloats<std::uint16_t>>(
      std::move(kernel), operand_count, std::array{first_count, second_count}, context.threads);
}

void add_bfloat16_rounding(Kernels& kernels) {
  kernels.add<NarrowSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cpu

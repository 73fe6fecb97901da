// Dropout: a Philox word for each element of the *global* tensor decides, as on the CPU, to the
// bit.
//
// A thread computes one counter's four words and writes the elements of the block among its four.
// Bound by memory traffic, 8 bytes an element: ten rounds for four elements are about 40 integer
// instructions an element.
#include "runtime/device/body_kernel.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/launch.h"
#include "runtime/device/drawn_block.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/step_scalars.h"

namespace meshwork::cuda {

namespace {

struct Dropped {
  const float* x;
  float* y;
  std::uint32_t least;  // the smallest word that keeps its element
  float kept_share;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t element, std::uint32_t word) const {
    y[element] = word >= least ? x[element] / kept_share : 0.0f;
  }
};
struct Dropout {
  DrawnBlock block;
  const StepScalars* scalars;
  Dropped drop;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const { block.each(i, scalars->step, drop); }
};

KernelPointer compile(const DropoutSpec& spec, const Context& context) {
  const std::uint64_t least = least_kept_word(spec.rate);
  if (least > 0xffffffffu) {
    const std::int64_t bytes = element_count(shape_of(spec.block)) * 4;
    return make_kernel([=, launcher = context.launcher](void* const* operands) {
      zero_bytes(launcher, operands[2], bytes);
    });
  }
  return make_kernel([block = drawn_block(spec.key, spec.global, spec.block),
                      least = static_cast<std::uint32_t>(least), kept = 1.0f - spec.rate,
                      launcher = context.launcher](void* const* operands) {
    for_elements(launcher, block.count,
                 Dropout{block,
                         at<const StepScalars>(operands, 1),
                         {at(operands, 0), at(operands, 2), least, kept}});
  });
}

}  // namespace

void add_dropout(Kernels& kernels) {
  kernels.add<DropoutSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cuda

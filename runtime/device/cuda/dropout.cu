// Dropout: a Philox word for each element of the *global* tensor decides, as on the CPU, to the
// bit.
//
// A thread computes one counter's four words and writes the elements of the block among its four.
// Bound by memory traffic, 8 bytes an element: ten rounds for four elements are about 40 integer
// instructions an element.
#include <array>
#include <cmath>

#include "runtime/device/block_runs.h"
#include "runtime/device/body_kernel.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/launch.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/step_scalars.h"
#include "runtime/device/philox.h"

namespace meshwork::cuda {

namespace {

/// Dimensions that count the runs of a block: what is whole behind them is part of a run.
constexpr int most_dimensions = 8;

struct Dropout {
  const float* x;
  const StepScalars* scalars;
  float* y;
  std::uint64_t key;
  std::uint32_t least;  // the smallest word that keeps its element
  float kept_share;
  std::int64_t length, offset, counters;  // of a run; counters: those that a run may touch
  std::int64_t extents[most_dimensions], strides[most_dimensions];
  int dimensions;

  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t run = i / counters;
    std::int64_t start = offset, rest = run;
    for (int d = dimensions; d-- > 0;) {
      start += rest % extents[d] * strides[d];
      rest /= extents[d];
    }
    const std::int64_t counter = start / 4 + i % counters;
    const std::int64_t end = start + length;
    if (counter * 4 >= end) return;
    const std::array<std::uint32_t, 4> words =
        philox(key, static_cast<std::uint64_t>(counter), static_cast<std::uint64_t>(scalars->step));
    for (int word = 0; word < 4; ++word) {
      const std::int64_t global = counter * 4 + word;
      if (global < start || global >= end) continue;
      const std::int64_t local = run * length + (global - start);
      y[local] = words[static_cast<std::size_t>(word)] >= least ? x[local] / kept_share : 0.0f;
    }
  }
};

KernelPointer compile(const DropoutSpec& spec, const Context& context) {
  const BlockRuns runs = runs_of(spec.global, spec.block);
  const auto threshold =
      static_cast<std::uint64_t>(std::ceil(static_cast<double>(spec.rate) * 4294967296.0));
  if (threshold > 0xffffffffu) {
    return make_kernel([bytes = runs.length * runs.count * 4, launcher = context.launcher](
                           void* const* operands) { zero_bytes(launcher, operands[2], bytes); });
  }
  Dropout body{};
  body.key = spec.key;
  body.least = static_cast<std::uint32_t>(threshold);
  body.kept_share = 1.0f - spec.rate;
  body.length = runs.length;
  body.offset = runs.offset;
  body.counters = (runs.length + 3) / 4 + 1;
  body.dimensions = static_cast<int>(runs.extents.size());
  if (body.dimensions > most_dimensions) {
    refuse(*context.launcher.name, "splits more than 8 dimensions in front of others");
  }
  for (std::size_t d = 0; d < runs.extents.size(); ++d) {
    body.extents[d] = runs.extents[d];
    body.strides[d] = runs.strides[d];
  }
  const std::int64_t count = runs.length > 0 ? runs.count * body.counters : 0;
  return make_kernel([=, launcher = context.launcher](void* const* operands) mutable {
    body.x = at(operands, 0);
    body.scalars = at<const StepScalars>(operands, 1);
    body.y = at(operands, 2);
    for_elements(launcher, count, body);
  });
}

}  // namespace

void add_dropout(Kernels& kernels) {
  kernels.add<DropoutSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cuda

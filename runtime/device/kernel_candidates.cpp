#include "runtime/device/kernel_candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "collectives/error.h"
#include "runtime/device/narrowing.h"

namespace meshwork {

namespace {

constexpr double seconds_a_sample = 50e-6;  // at least, of short kernels
constexpr int most_runs_a_sample = 64;
constexpr std::size_t least_turns = 2, most_turns = 51;
constexpr double enough_seconds = 0.2;  // after which there are no more turns than the least
constexpr double hopeless = 2;          // times the fastest

/// Numbers between -1 and 1 that repeat late and look like none in particular: read as float32 and,
/// twice as many, as bfloat16.
std::vector<float> sample_numbers(std::int64_t count) {
  std::vector<float> numbers(static_cast<std::size_t>(count));
  std::uint32_t state = 1;
  for (float& number : numbers) {
    state = state * 1664525U + 1013904223U;
    const std::uint32_t half =
        narrowed(static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31f);
    number = std::bit_cast<float>(half << 16 | half);
  }
  return numbers;
}

double median(std::vector<double> values) {
  // Of two the lower one: what disturbs a run makes it longer.
  const auto middle = values.begin() + (std::ssize(values) - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

class Stopwatch {
 public:
  explicit Stopwatch(DeviceQueues& queues)
      : queue_(queues.kernels()), begin_(queues.make_mark(true)), end_(queues.make_mark(true)) {}

  /// Seconds of one of `runs` runs.
  [[nodiscard]] double time(Kernel& kernel, void* const* operands, int runs) {
    queue_.record(*begin_);
    for (int run = 0; run < runs; ++run) kernel.run(operands);
    queue_.record(*end_);
    end_->wait();
    return end_->seconds_since(*begin_) / runs;
  }

 private:
  Queue& queue_;
  std::unique_ptr<Mark> begin_, end_;
};

}  // namespace

std::unique_ptr<Kernel> compile_candidate(Device& device, const KernelSpec& spec,
                                          std::string_view name) {
  std::string known;
  for (const KernelCandidate& candidate : device.candidates(spec)) {
    if (candidate.name == name) return candidate.compile();
    known += fmt::format("{}{}", known.empty() ? "" : ", ", candidate.name);
  }
  fail("{} has no kernel \"{}\" for {} (known: {})", device.platform(), name, spec.key(),
       known.empty() ? "none by name" : known);
}

std::vector<double> time_kernels(Device& device, const KernelSpec& spec,
                                 std::span<const std::unique_ptr<Kernel>> kernels) {
  std::vector<Memory> memories;
  std::vector<void*> operands;
  const std::vector<std::int64_t> counts = spec.operand_counts();
  if (counts.empty()) internal_error(fmt::format("{} was to be timed", spec.text()));
  for (const std::int64_t count : counts) {
    memories.push_back(device.allocate(count * static_cast<std::int64_t>(sizeof(float))));
    operands.push_back(memories.back().data());
    const std::vector<float> numbers = sample_numbers(count);
    device.copy_in(operands.back(), numbers.data(), memories.back().bytes());
  }
  std::int64_t workspace = 0;
  for (const auto& kernel : kernels) workspace = std::max(workspace, kernel->workspace_bytes());
  memories.push_back(device.allocate(workspace));
  operands.push_back(memories.back().data());

  Stopwatch watch(device.queues());
  std::vector<std::vector<double>> samples(kernels.size());
  double spent = 0;
  const auto take_sample = [&](std::size_t k, int runs) {
    samples[k].push_back(watch.time(*kernels[k], operands.data(), runs));
    spent += samples[k].back() * runs;
  };
  // The first turn. The first run of a kernel may compile or load code, the second finds everything
  // in place.
  double fastest = std::numeric_limits<double>::infinity();
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    (void)watch.time(*kernels[k], operands.data(), 1);
    take_sample(k, 1);
    fastest = std::min(fastest, samples[k].front());
  }
  const int runs = static_cast<int>(std::clamp(
      std::ceil(seconds_a_sample / std::max(fastest, 1e-9)), 1.0, double{most_runs_a_sample}));
  for (std::size_t turn = 1; turn < most_turns && (turn < least_turns || spent < enough_seconds);
       ++turn) {
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      if (samples[k].front() <= hopeless * fastest) take_sample(k, runs);
    }
  }
  std::vector<double> seconds;
  for (std::vector<double>& of_kernel : samples) seconds.push_back(median(std::move(of_kernel)));
  return seconds;
}

std::size_t clearly_fastest(std::span<const double> seconds) {
  const auto fastest = std::min_element(seconds.begin(), seconds.end());
  const bool clearly = *fastest < seconds.front() * (1 - clear_gain);
  return clearly ? static_cast<std::size_t>(fastest - seconds.begin()) : 0;
}

}  // namespace meshwork

// Profile: where the time of training steps goes.
//
// While a run is profiled, each rank reads the clock between the instructions of its training steps
// and between what it does around them, so that the time from step to step is split without a rest:
//   kernels      instruction by instruction
//   collectives  likewise: what of them is *exposed*. What goes on beside kernels while a reduction
//                is under way is not in it, but for what it takes from these kernels, which is in
//                theirs. What a rank spends in one, in starting it and in waiting for it, beyond
//                the rank that spends least in it, in that step, is *waiting*; what that one
//                spends is taken for work. Not told where ranks run different parts of a model
//   reading      until the next batch is there
//   feeding      copying its blocks to the device
//   between      callbacks, logs, agreements, checkpoints
// A kernel's time is held against its *bound*: the time that the least it has to do (KernelWork)
// would take at the rates which this device was seen to reach when the run began, those of a large
// product in the kernel's precision and of copies that fit the caches or do not. The first steps do
// not count, nor do batches that are not full, nor what happens between two epochs.
//
// Of a pipeline, the time of a step is compared with what the ranks' kernels would take in the order of
// its schedule, if messages took no time.
//
// On a device that works beside the host, its own marks stand in place of the clock; a step that is
// profiled starts its kernels one by one and waits for the last, which others do not: the whole is
// longer than it would be, the parts are what they are.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/trace.h"
#include "collectives/transport.h"
#include "runtime/device/device.h"
#include "runtime/graph/plan.h"
#include "runtime/graph/walk.h"
#include "runtime/train/engine/engine.h"
#include "runtime/train/reporting/history.h"

namespace meshwork {

/// What a device reaches, all ranks of the node at work.
struct DeviceRates {
  struct Bandwidth {
    double bytes;  // read and written by a copy
    double bytes_per_second;
  };
  std::array<double, all_precisions.size()> flops_per_second{};  // by precision
  std::array<Bandwidth, 3> bandwidths{};                         // by rising size

  /// The least seconds for `work`; none if they are up to its bytes and these are fewer than any
  /// copy that was timed had. Between two sizes the rate falls evenly on a scale of powers.
  [[nodiscard]] std::optional<double> bound(const KernelWork& work) const;
};
/// Runs a product and copies for some milliseconds.
[[nodiscard]] DeviceRates measure_rates(Device& device);

class StepProfile {
 public:
  static constexpr std::int64_t warm_up = 20;           // steps
  static constexpr std::int64_t compared_steps = 1000;  // between ranks, the first that count

  enum class Part : std::uint8_t { reading, feeding, program, between };
  static constexpr std::size_t part_count = 4;

  /// Of steps with `rows` rows.
  StepProfile(Device& device, std::int64_t rows) : rates_(measure_rates(device)), rows_(rows) {}
  ~StepProfile() {
    if (step_ != nullptr) step_->stop_measuring();
  }
  StepProfile(const StepProfile&) = delete;
  StepProfile& operator=(const StepProfile&) = delete;

  /// The time until now counts for nothing.
  void skip() {
    present_ = {};
    last_ = Clock::now();
  }
  /// The time since the last call went into `part` of the present step.
  void spent_on(Part part) {
    const Clock::time_point now = Clock::now();
    present_[static_cast<std::size_t>(part)] += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }
  /// The present step was `step`, and is over.
  void end_step(Step& step);

  /// Compares the ranks, whose steps are of `plan` and walk so; every rank of `all` calls it, once,
  /// before the rest. `at` records the waiting.
  void compare(Transport& transport, const Communicator& all, const TracePoint& at,
               const Plan& plan, const StepWalk& walk);
  /// Means of this rank; none if no step has counted.
  [[nodiscard]] std::optional<StepParts> parts() const;
  /// Tables for a terminal, by part, instruction and kernel, on the root; "" elsewhere. On lines of
  /// at most `width` columns, if that is not 0.
  [[nodiscard]] std::string report(std::size_t width = 0) const;

 private:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::array<double, part_count>;
  struct Exposed {
    std::size_t instruction;
    std::size_t start;  // which of the exposed starts what it ends: itself if none does
    double so_far;      // seconds
  };
  /// What the ranks' kernels would take in the order of the pipeline's schedule; 0 without one.
  [[nodiscard]] double scheduled() const;
  [[nodiscard]] std::string of_pipeline() const;
  void find_collectives();
  void remember_collectives();

  DeviceRates rates_;
  Clock::time_point last_ = Clock::now();
  Seconds present_{}, total_{};
  std::int64_t rows_;
  Step* step_ = nullptr;  // the one that is profiled
  std::int64_t seen_ = 0, counted_ = 0;
  std::vector<Exposed> exposed_;           // every instruction of collectives
  std::vector<float> collective_seconds_;  // step by step, of those that are compared
  double waiting_ = 0;                     // a step
  std::vector<StepParts> ranks_;           // on the root
  bool waits_alike_ = true;                // all ranks run the same
  std::optional<Pipeline> pipeline_;
  std::string pipeline_name_;  // "over stage, 1f1b"
  Actions actions_;
  std::vector<std::int64_t> coordinates_;  // by rank
};

}  // namespace meshwork

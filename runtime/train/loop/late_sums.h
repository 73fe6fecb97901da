// LateSums: the sums of steps that the device may still be working on, added to running means when
// somebody asks for these.
//
// After a step its sums are on their way to pinned memory, in the queue of kernels, and the host
// goes on to the next. They are added in the order of the steps, so that the means are the same bit
// for bit whenever they are asked for. Who asks after every step makes the host wait for each; who
// asks for none makes it wait only when it is `kept` steps ahead.
//
// On a device that computes in the host's memory they are added at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/train/engine/engine.h"
#include "runtime/train/loop/means.h"

namespace meshwork {

class LateSums {
 public:
  /// Steps whose sums may be on their way.
  static constexpr std::size_t kept = 16;

  /// For means of `values` sums or fewer. Both outlive this.
  LateSums(Device& device, RunningMeans& means, std::size_t values);

  /// Adds what `step`, which has just run, sums up.
  void add(Step& step);
  /// The means have it all. Waits for what is on its way.
  void settle();

 private:
  struct Turn {
    std::unique_ptr<Mark> arrived;
    bool has_penalty = false;
    std::int64_t rows = 0;
  };
  void take_oldest();

  Device* device_;
  RunningMeans* means_;
  std::size_t values_;
  Memory pinned_;  // `kept` times `values_`
  std::array<Turn, kept> turns_;
  std::size_t oldest_ = 0, count_ = 0;  // of the turns
};

}  // namespace meshwork

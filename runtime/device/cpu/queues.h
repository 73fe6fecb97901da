// The queues of a device that is done when a call returns.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>

#include "collectives/device_queues.h"
#include "runtime/device/cpu/memory.h"

namespace meshwork::cpu {

/// Always reached.
class CpuMark final : public Mark {
 public:
  void wait() override {}
  [[nodiscard]] bool reached() override { return true; }
  [[nodiscard]] double seconds_since(const Mark& earlier) const override {
    return std::chrono::duration<double>(recorded_ - static_cast<const CpuMark&>(earlier).recorded_)
        .count();
  }
  void record() { recorded_ = std::chrono::steady_clock::now(); }

 private:
  std::chrono::steady_clock::time_point recorded_;
};

class CpuQueue final : public Queue {
 public:
  void start_copy(void* destination, const void* source, std::int64_t bytes) override {
    if (bytes > 0) std::memcpy(destination, source, static_cast<std::size_t>(bytes));
  }
  void record(Mark& mark) override { static_cast<CpuMark&>(mark).record(); }
  void wait_for(Mark& /*mark*/) override {}
  void start_count(std::uint64_t& count) override {
    std::atomic_ref<std::uint64_t>(count).fetch_add(1, std::memory_order_release);
  }
};

class CpuQueues final : public DeviceQueues {
 public:
  [[nodiscard]] bool owns(const void* /*address*/) const override { return false; }
  [[nodiscard]] Memory allocate_pinned(std::int64_t bytes) override { return allocate(bytes); }
  [[nodiscard]] std::unique_ptr<Mark> make_mark(bool /*timed*/) override {
    return std::make_unique<CpuMark>();
  }
  [[nodiscard]] Queue& kernels() override { return queue_; }
  [[nodiscard]] Queue& transfers() override { return queue_; }
  [[nodiscard]] Queue& feeds() override { return queue_; }

 private:
  CpuQueue queue_;  // one is as good as three
};

}  // namespace meshwork::cpu

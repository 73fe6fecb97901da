// The streams and events of a GPU, as transports and programs know them: its queues and marks.
//
// Three streams: kernels, and beside them what travels between ranks, and batches on their way.
// What travels comes first: other ranks wait for it, and it takes few of the GPU's processors.
// None is the default stream, so nothing waits that was not told to. A mark is an event; whether a
// buffer is the device's own is known from what it has allocated, without asking the driver. What
// was captured is a graph of CUDA, in which each stream is a branch with its priority;
// MESHWORK_GRAPHS=off captures nothing, on all ranks alike.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "collectives/device_queues.h"
#include "runtime/device/cuda/launcher.h"
#include "runtime/device/cuda/owned.h"

namespace meshwork::cuda {

/// The stretches of memory that a device has given and not got back.
class Allocations {
 public:
  void add(const void* begin, std::int64_t bytes) { ends_[begin] = bytes; }
  void remove(const void* begin) { ends_.erase(begin); }
  [[nodiscard]] bool hold(const void* address) const;

 private:
  std::map<const void*, std::int64_t, std::less<>> ends_;  // bytes, by where they begin
};

/// Whose work the GPU starts when blocks of two queues wait for room.
enum class Urgency { first, behind };

class CudaQueue final : public Queue {
 public:
  CudaQueue(std::shared_ptr<const Activity> activity, Urgency urgency);
  void start_copy(void* destination, const void* source, std::int64_t bytes) override;
  void record(Mark& mark) override;
  void wait_for(Mark& mark) override;
  void start_count(std::uint64_t& count) override;
  [[nodiscard]] void* native() override { return stream_.native(); }

  [[nodiscard]] cudaStream_t stream() const { return stream_.native(); }
  void synchronize();

 private:
  Stream stream_;
  std::shared_ptr<const Activity> activity_;
  Launcher counting_;  // which tells nobody what was started last
};

class CudaQueues final : public DeviceQueues {
 public:
  /// `activity` is where kernels note their starts. Threads that wait for marks sleep if `sleeps`.
  CudaQueues(std::shared_ptr<const Allocations> allocations, std::shared_ptr<Activity> activity,
             bool sleeps);

  [[nodiscard]] bool owns(const void* address) const override {
    return allocations_->hold(address);
  }
  [[nodiscard]] Memory allocate_pinned(std::int64_t bytes) override;
  [[nodiscard]] std::unique_ptr<Mark> make_mark(bool timed) override;
  [[nodiscard]] CudaQueue& kernels() override { return kernels_; }
  [[nodiscard]] CudaQueue& transfers() override { return transfers_; }
  [[nodiscard]] CudaQueue& feeds() override { return feeds_; }
  [[nodiscard]] std::unique_ptr<CapturedWork> capture(const std::function<void()>& start) override;
  [[nodiscard]] bool is_capturing() const override { return capturing_; }

  /// Returns when all of them are empty.
  void synchronize();

 private:
  /// Lets the kernels wait for the queue, if it was captured with them.
  void join(CudaQueue& queue);

  std::shared_ptr<const Allocations> allocations_;
  std::shared_ptr<Activity> activity_;
  CudaQueue kernels_, transfers_, feeds_;
  std::unique_ptr<Mark> joined_;
  bool capturing_ = false, graphs_, sleeps_;
};

}  // namespace meshwork::cuda

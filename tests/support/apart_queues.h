// Queues and memory as a device has them that is apart from the processor, to find whoever forgets
// that it is. No device is needed for it.
//
// The memory cannot be touched: whoever does outside of work in a queue dies of SIGSEGV. And work
// is done as late as the rules allow: not when it is started, but when the processor waits for
// something that stands behind it, and then no more than that. So what forgets to wait, on either
// side, finds the bytes that were there before; what reuses a buffer that is still to be read
// spoils it; both every time, not now and then. What is captured is done as late: of queues beside
// the kernels only what these wait for, the rest in the end. Marks and waits that CUDA refuses
// while it captures are errors here too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "collectives/device_queues.h"

namespace meshwork::test {

class ApartQueue;
struct ApartCapture;

/// What this process has given back of such devices since this was last called, in order: "memory",
/// pinned or the device's, "captured work", and what else was noted.
[[nodiscard]] std::vector<std::string> given_back();
/// From any thread.
void note_given_back(std::string what);

/// What `Queue::native` of a device that is apart gives, if it is to give something: for who puts
/// work of its own into a queue.
class ApartStream {
 public:
  virtual ~ApartStream() = default;
  virtual void start(std::function<void()> work) = 0;
};

class ApartQueues final : public DeviceQueues {
 public:
  /// With `untouchable` false, everybody can read and write the memory, as a transport of a
  /// device's vendor can. With `has_streams` its queues have native ones.
  explicit ApartQueues(bool untouchable = true, bool has_streams = false);
  ~ApartQueues() override;
  ApartQueues(const ApartQueues&) = delete;
  ApartQueues& operator=(const ApartQueues&) = delete;

  [[nodiscard]] bool owns(const void* address) const override;
  [[nodiscard]] Memory allocate_pinned(std::int64_t bytes) override;
  [[nodiscard]] std::unique_ptr<Mark> make_mark(bool timed = false) override;
  [[nodiscard]] Queue& kernels() override;
  [[nodiscard]] Queue& transfers() override;
  [[nodiscard]] Queue& feeds() override;
  [[nodiscard]] std::unique_ptr<CapturedWork> capture(const std::function<void()>& start) override;
  [[nodiscard]] bool is_capturing() const override { return capture_ != nullptr; }

  /// Memory of the device, zeroed. Releasing it does all work first.
  [[nodiscard]] Memory allocate(std::int64_t bytes);
  /// Starts `work` in the queue of kernels; it can touch the memory.
  void start(std::function<void()> work);
  /// Does everything that was started, in all queues.
  void finish();
  /// The same where nothing can be thrown.
  void finish_quietly();

  /// How often the processor has waited for work that was not done yet.
  [[nodiscard]] std::int64_t waits() const { return waits_; }
  /// Pinned stretches that were made so far.
  [[nodiscard]] std::int64_t pinned_allocations() const { return pinned_; }
  /// Pieces of work that were captured so far.
  [[nodiscard]] std::int64_t captures() const { return captures_; }

 private:
  friend class ApartQueue;
  friend class ApartMark;

  void wait_for(ApartQueue& queue, std::uint64_t position);
  void open();
  void close();
  void release(std::byte* at);

  bool untouchable_;
  std::byte* region_ = nullptr;
  std::size_t used_ = 0;                     // of the region, ever
  std::map<std::byte*, std::size_t> taken_;  // by address
  std::multimap<std::size_t, std::byte*> free_;
  int opened_ = 0;
  std::int64_t waits_ = 0, pinned_ = 0, captures_ = 0;
  std::shared_ptr<ApartCapture> capture_;  // the one that is under way
  std::unique_ptr<ApartQueue> kernels_, transfers_, feeds_;
};

}  // namespace meshwork::test

#include "tests/support/apart_queues.h"

#include <sys/mman.h>

#include <chrono>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "collectives/error.h"

namespace meshwork::test {
namespace {

constexpr std::size_t region_bytes = std::size_t{16} << 30;  // of addresses, not of memory
constexpr std::size_t page = 4096;

std::mutex noting;
std::vector<std::string> noted;  // as given back

}  // namespace

std::vector<std::string> given_back() {
  const std::scoped_lock lock(noting);
  return std::exchange(noted, {});
}

void note_given_back(std::string what) {
  const std::scoped_lock lock(noting);
  noted.push_back(std::move(what));
}

/// What is captured, in the order in which each queue was given it. It can be done again and again:
/// `Round` is how far a time has come.
struct ApartCapture {
  struct Round {
    std::map<const ApartQueue*, std::size_t> done;
  };
  using Work = std::function<void(Round&)>;
  std::map<const ApartQueue*, std::vector<Work>> queues;  // those that are in it

  [[nodiscard]] bool has(const ApartQueue& queue) const { return queues.count(&queue) != 0; }
  void advance(const ApartQueue& queue, std::size_t position, Round& round) const {
    while (round.done[&queue] < position) queues.at(&queue)[round.done[&queue]++](round);
  }
};

class ApartMark final : public Mark {
 public:
  explicit ApartMark(ApartQueues& owner) : owner_(owner) {}
  void wait() override {
    check_uncaptured();
    if (queue != nullptr) owner_.wait_for(*queue, position);
  }
  [[nodiscard]] bool reached() override;
  [[nodiscard]] double seconds_since(const Mark& earlier) const override {
    const auto& other = static_cast<const ApartMark&>(earlier);
    return std::chrono::duration<double>(*time - *other.time).count();
  }

  ApartQueue* queue = nullptr;
  std::uint64_t position = 0;             // of the last entry in front of it, from 1
  std::weak_ptr<ApartCapture> capture{};  // in which it was recorded
  bool captured = false;
  std::shared_ptr<std::chrono::steady_clock::time_point> time;

 private:
  void check_uncaptured() const {
    if (captured || owner_.is_capturing()) {
      fail("the processor waits for a mark of a capture, or while it captures");
    }
  }

  ApartQueues& owner_;
};

class ApartQueue final : public Queue, public ApartStream {
 public:
  ApartQueue(bool has_streams, const std::shared_ptr<ApartCapture>& capture)
      : has_streams_(has_streams), capture_(capture) {}
  [[nodiscard]] void* native() override {
    return has_streams_ ? static_cast<ApartStream*>(this) : nullptr;
  }
  void start_copy(void* destination, const void* source, std::int64_t bytes) override {
    if (bytes == 0) return;
    start([=] { std::memcpy(destination, source, static_cast<std::size_t>(bytes)); });
  }
  void record(Mark& mark) override {
    auto& here = static_cast<ApartMark&>(mark);
    auto time = std::make_shared<std::chrono::steady_clock::time_point>();
    here.time = time;
    start([time] { *time = std::chrono::steady_clock::now(); });
    here.queue = this;
    here.captured = is_captured();
    here.capture = here.captured ? capture_ : nullptr;
    here.position = here.captured ? capture_->queues.at(this).size() : started_;
  }
  void wait_for(Mark& mark) override {
    const auto& other = static_cast<const ApartMark&>(mark);
    if (other.captured) {
      const std::shared_ptr<ApartCapture> of = other.capture.lock();
      if (of == nullptr || of != capture_) fail("a queue waits for a mark of another capture");
      if (other.queue == this) return;
      capture_->queues[this].push_back(
          [queue = other.queue, position = other.position, of = of.get()](auto& round) {
            of->advance(*queue, position, round);
          });
      return;
    }
    if (other.queue == nullptr || other.queue == this) return;
    if (is_captured()) fail("a queue that is captured waits for a mark that is not");
    start([queue = other.queue, position = other.position] { queue->advance(position); });
  }
  void start_count(std::uint64_t& count) override {
    start([&count] { ++count; });
  }

  void start(std::function<void()> work) override {
    if (is_captured()) {
      capture_->queues.at(this).push_back([work = std::move(work)](auto&) { work(); });
      return;
    }
    work_.push_back(std::move(work));
    ++started_;
  }
  [[nodiscard]] bool is_captured() const { return capture_ != nullptr && capture_->has(*this); }
  /// Does what is in front of `position`, and it.
  void advance(std::uint64_t position) {
    while (done_ < position) {
      const std::function<void()> work = std::move(work_.front());
      work_.pop_front();
      ++done_;
      work();
    }
  }
  [[nodiscard]] std::uint64_t started() const { return started_; }
  [[nodiscard]] std::uint64_t done() const { return done_; }

 private:
  bool has_streams_;
  const std::shared_ptr<ApartCapture>& capture_;  // of all queues
  std::deque<std::function<void()>> work_;
  std::uint64_t started_ = 0, done_ = 0;
};

namespace {

class ApartCapturedWork final : public CapturedWork {
 public:
  ApartCapturedWork(std::shared_ptr<const ApartCapture> work, ApartQueues& queues)
      : work_(std::move(work)), queues_(queues) {}
  // What was started goes on without it, as CUDA's graphs do.
  ~ApartCapturedWork() override { note_given_back("captured work"); }
  ApartCapturedWork(const ApartCapturedWork&) = delete;
  ApartCapturedWork& operator=(const ApartCapturedWork&) = delete;
  void start() override {
    queues_.start([work = work_, &queues = queues_] {
      ApartCapture::Round round;
      const auto& kernels = static_cast<const ApartQueue&>(queues.kernels());
      work->advance(kernels, work->queues.at(&kernels).size(), round);
      for (const auto& [queue, of_it] : work->queues) work->advance(*queue, of_it.size(), round);
    });
  }

 private:
  std::shared_ptr<const ApartCapture> work_;
  ApartQueues& queues_;
};

}  // namespace

std::unique_ptr<CapturedWork> ApartQueues::capture(const std::function<void()>& start) {
  capture_ = std::make_shared<ApartCapture>();
  capture_->queues[kernels_.get()];
  try {
    start();
  } catch (...) {
    capture_.reset();
    throw;
  }
  ++captures_;
  return std::make_unique<ApartCapturedWork>(std::exchange(capture_, nullptr), *this);
}

bool ApartMark::reached() {
  check_uncaptured();
  return queue == nullptr || queue->done() >= position;
}

ApartQueues::ApartQueues(bool untouchable, bool has_streams)
    : untouchable_(untouchable),
      kernels_(std::make_unique<ApartQueue>(has_streams, capture_)),
      transfers_(std::make_unique<ApartQueue>(has_streams, capture_)),
      feeds_(std::make_unique<ApartQueue>(has_streams, capture_)) {
  void* region = ::mmap(nullptr, region_bytes, untouchable ? PROT_NONE : PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (region == MAP_FAILED) fail("no addresses for the memory of a device that is apart");
  region_ = static_cast<std::byte*>(region);
}

ApartQueues::~ApartQueues() {
  ::munmap(region_, region_bytes);
}

bool ApartQueues::owns(const void* address) const {
  const auto* at = static_cast<const std::byte*>(address);
  return at >= region_ && at < region_ + region_bytes;
}

Memory ApartQueues::allocate_pinned(std::int64_t bytes) {
  ++pinned_;
  constexpr std::align_val_t alignment{64};
  const auto size = static_cast<std::size_t>(bytes);
  void* memory = ::operator new(size, alignment);
  std::memset(memory, 0, size);
  return {memory, bytes, [this](void* data) {
            note_given_back("memory");
            finish_quietly();
            ::operator delete(data, alignment);
          }};
}

std::unique_ptr<Mark> ApartQueues::make_mark(bool /*timed*/) {
  return std::make_unique<ApartMark>(*this);
}

Queue& ApartQueues::kernels() {
  return *kernels_;
}
Queue& ApartQueues::transfers() {
  return *transfers_;
}
Queue& ApartQueues::feeds() {
  return *feeds_;
}

Memory ApartQueues::allocate(std::int64_t bytes) {
  // Whole pages, so that neighbours are pages apart, and never none.
  const std::size_t size = (static_cast<std::size_t>(bytes) / page + 1) * page;
  std::byte* at = nullptr;
  if (const auto found = free_.find(size); found != free_.end()) {
    at = found->second;
    free_.erase(found);
  } else {
    if (used_ + size > region_bytes) fail("the device that is apart has no {} bytes left", bytes);
    at = region_ + used_;
    used_ += size;
  }
  taken_[at] = size;
  return {at, bytes, [this](void* data) { release(static_cast<std::byte*>(data)); }};
}

void ApartQueues::release(std::byte* at) {
  note_given_back("memory");
  finish_quietly();
  const auto found = taken_.find(at);
  // Its pages go back, and are zeros when they come again.
  if (::madvise(at, found->second, MADV_DONTNEED) != 0) {
    internal_error("madvise failed");
  }
  free_.emplace(found->second, at);
  taken_.erase(found);
}

void ApartQueues::start(std::function<void()> work) {
  kernels_->start(std::move(work));
}

void ApartQueues::finish() {
  for (ApartQueue* queue : {kernels_.get(), transfers_.get(), feeds_.get()}) {
    wait_for(*queue, queue->started());
  }
}

void ApartQueues::finish_quietly() {
  try {
    finish();
  } catch (const std::exception&) {
    // Who waits for the work hears of it.
  }
}

void ApartQueues::wait_for(ApartQueue& queue, std::uint64_t position) {
  if (queue.done() >= position) return;
  ++waits_;
  open();
  try {
    queue.advance(position);
  } catch (...) {
    close();
    throw;
  }
  close();
}

void ApartQueues::open() {
  if (opened_++ == 0 && untouchable_ && used_ > 0 &&
      ::mprotect(region_, used_, PROT_READ | PROT_WRITE) != 0) {
    internal_error("mprotect failed");
  }
}

void ApartQueues::close() {
  if (--opened_ == 0 && untouchable_ && used_ > 0 && ::mprotect(region_, used_, PROT_NONE) != 0) {
    internal_error("mprotect failed");
  }
}

}  // namespace meshwork::test

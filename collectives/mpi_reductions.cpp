#include "collectives/mpi_reductions.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "collectives/error.h"
#include "collectives/hosted.h"
#include "collectives/thread_without_signals.h"

namespace meshwork {

namespace {

using Clock = std::chrono::steady_clock;

// A look that took so long has moved data, and there may be more.
constexpr std::chrono::microseconds fruitful{20};
constexpr std::chrono::microseconds nap{50};

/// So that a thread which has napped gets on where another one computes. Where it fails, the
/// courier comes later, and no more than that.
void be_prompt() {
  // Naps are what they are meant to be: the kernel adds 50 us to them by itself.
  (void)::prctl(PR_SET_TIMERSLACK, 1000UL);
  // Whoever wants the core for a short time each gets it before a longer one's slice, of some
  // milliseconds, is over (Linux 6.12; older kernels take no notice).
  struct {
    std::uint32_t size, policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t runtime, deadline, period;
  } attributes{};
  attributes.size = sizeof attributes;
  attributes.policy = SCHED_OTHER;
  attributes.nice = ::getpriority(PRIO_PROCESS, 0);
  attributes.runtime = 100'000;  // ns
  (void)::syscall(SYS_sched_setattr, 0, &attributes, 0U);
}

}  // namespace

Progress settled(Progress wanted) {
  int level = MPI_THREAD_SINGLE;
  check_mpi(MPI_Query_thread(&level), "MPI_Query_thread");
  if (wanted == Progress::automatic) {
    const char* const word = std::getenv("MESHWORK_PROGRESS");
    const std::string_view text = word != nullptr ? word : "";
    if (text.empty()) {
      return level == MPI_THREAD_MULTIPLE ? Progress::thread : Progress::polls;
    }
    if (text != "thread" && text != "polls" && text != "none") {
      fail("MESHWORK_PROGRESS is \"{}\"; it is \"thread\", \"polls\" or \"none\"", text);
    }
    wanted = text == "thread"  ? Progress::thread
             : text == "polls" ? Progress::polls
                               : Progress::none;
  }
  if (wanted == Progress::thread && level != MPI_THREAD_MULTIPLE) {
    fail(
        "MESHWORK_PROGRESS is \"thread\", and this MPI lacks MPI_THREAD_MULTIPLE; set it to "
        "\"polls\"");
  }
  return wanted;
}

MpiReductions::MpiReductions(Progress progress, bool has_spare_core)
    : progress_(progress), has_spare_core_(has_spare_core) {}

MpiReductions::~MpiReductions() {
  stop();
}

void MpiReductions::stop() {
  if (!courier_.joinable()) return;
  ends_.store(true, std::memory_order_release);
  ring();
  courier_.join();
}

void MpiReductions::reserve(std::size_t count) {
  const std::scoped_lock role(role_);
  requests_.reserve(count);
  owners_.reserve(count);
  indices_.reserve(count);
}

void MpiReductions::make_courier() {
  if (progress_ != Progress::thread || courier_.joinable()) return;
  courier_ = thread_without_signals([this] { be_courier(); });
}

void MpiReductions::hand_over(MpiReduction& reduction) {
  reduction.failure_.clear();
  reduction.left_ = 0;
  reduction.over_.store(false, std::memory_order_relaxed);
  const std::uint64_t number = handed_.load(std::memory_order_relaxed);
  if (number - taken_.load(std::memory_order_acquire) == places) {
    const std::scoped_lock role(role_);
    take();
  }
  handed_over_[number % places] = &reduction;
  handed_.store(number + 1, std::memory_order_release);
  // The first messages leave now, unless the courier is at work: it may be long in coming.
  if (const std::unique_lock role(role_, std::try_to_lock); role) take();
  if (progress_ == Progress::thread) ring();
}

void MpiReductions::advance() {
  if (progress_ != Progress::polls) return;
  if (requests_.empty() &&
      taken_.load(std::memory_order_relaxed) == handed_.load(std::memory_order_relaxed)) {
    return;
  }
  const std::scoped_lock role(role_);
  look();
}

void MpiReductions::wait(MpiReduction& reduction) {
  if (!reduction.is_over()) {
    waited_for_.store(true, std::memory_order_relaxed);
    {
      const std::scoped_lock role(role_);
      Hosted* const hosted = Hosted::current();
      for (look(); !reduction.is_over(); look()) {
        ::sched_yield();
        if (hosted == nullptr) continue;
        try {
          hosted->look();
        } catch (const RanksParted&) {
          hosted->leave_wait();
          waited_for_.store(false, std::memory_order_relaxed);
          throw;
        }
      }
    }
    waited_for_.store(false, std::memory_order_relaxed);
    if (progress_ == Progress::thread) ring();  // others may be under way
  }
  if (!reduction.failure_.empty()) throw Error(reduction.failure_);
}

// ---- with the role ------------------------------------------------------------------------------

void MpiReductions::take() {
  std::uint64_t taken = taken_.load(std::memory_order_relaxed);
  while (taken < handed_.load(std::memory_order_acquire)) {
    MpiReduction& reduction = *handed_over_[taken % places];
    taken_.store(++taken, std::memory_order_release);
    start(reduction);
  }
}

void MpiReductions::look() {
  take();
  if (requests_.empty()) return;
  indices_.resize(requests_.size());
  int ended = 0;
  const int result = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &ended,
                                  indices_.data(), MPI_STATUSES_IGNORE);
  if (result != MPI_SUCCESS) {
    try {
      check_mpi(result, "MPI_Testsome for started all-reduces");
    } catch (const Error& error) {
      fail_all(error.what());
    }
    return;
  }
  if (ended <= 0) return;
  for (int i = 0; i < ended; ++i) {
    MpiReduction*& owner = owners_[static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)])];
    if (--owner->left_ == 0) complete(*owner);
    owner = nullptr;
  }
  std::erase(owners_, nullptr);
  std::erase(requests_, MPI_REQUEST_NULL);
}

void MpiReductions::start(MpiReduction& reduction) {
  try {
    for (std::int64_t begin = 0; begin < reduction.count; begin += reduction.largest) {
      const std::int64_t count = std::min(reduction.largest, reduction.count - begin);
      MPI_Request started = MPI_REQUEST_NULL;
      check_mpi(MPI_Iallreduce(MPI_IN_PLACE, reduction.buffer + begin * reduction.width,
                               static_cast<int>(count), reduction.type, reduction.operation,
                               reduction.communicator, &started),
                "MPI_Iallreduce");
      requests_.push_back(started);
      owners_.push_back(&reduction);
      ++reduction.left_;
    }
  } catch (const Error& error) {
    owners_.push_back(&reduction);
    fail_all(error.what());
    return;
  }
  if (reduction.left_ == 0) complete(reduction);
}

void MpiReductions::complete(MpiReduction& reduction) {
  reduction.over_.store(true, std::memory_order_release);
}

/// After an error of MPI nothing is known of any reduction, and the job is over.
void MpiReductions::fail_all(const std::string& why) {
  std::vector<MpiReduction*> owners;
  std::swap(owners, owners_);
  std::sort(owners.begin(), owners.end());
  owners.erase(std::unique(owners.begin(), owners.end()), owners.end());
  requests_.clear();
  for (MpiReduction* const owner : owners) {
    owner->failure_ = why;
    complete(*owner);
  }
}

// ---- the courier --------------------------------------------------------------------------------

void MpiReductions::ring() {
  bell_.fetch_add(1, std::memory_order_release);
  bell_.notify_one();
}

void MpiReductions::be_courier() {
  be_prompt();
  for (;;) {
    const std::uint32_t heard = bell_.load(std::memory_order_acquire);
    if (ends_.load(std::memory_order_acquire)) return;
    bool under_way = false;
    const Clock::time_point before = Clock::now();
    if (!waited_for_.load(std::memory_order_relaxed)) {
      const std::scoped_lock role(role_);
      look();
      under_way = !requests_.empty();
    }
    if (!under_way) {
      bell_.wait(heard, std::memory_order_acquire);
    } else if (Clock::now() - before < fruitful) {
      if (has_spare_core_) {
        ::sched_yield();
      } else {
        std::this_thread::sleep_for(nap);
      }
    }
  }
}

}  // namespace meshwork

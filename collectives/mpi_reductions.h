// All-reduces started through MPI, and who brings them on.
//
// MPI goes on with what was started only while somebody calls it: a started all-reduce that nobody
// looks after begins, in truth, when it is waited for. Three ways to look after it:
//   thread  A thread of this rank, the *courier*, calls MPI for as long as something is under way.
//           What goes over the network is hidden behind what the rank computes meanwhile.
//   polls   The thread that computes calls `advance` now and then, between two kernels.
//   none    Nobody before the wait.
// A reduction is the same calls of MPI in all three, in the same order, so the result has the same
// bits. Ranks need not choose alike.
//
// By itself, a rank chooses the thread, if the MPI lets threads call it at any time
// (MPI_THREAD_MULTIPLE), else polls; MESHWORK_PROGRESS chooses otherwise (`thread`, `polls`,
// `none`). A kernel takes milliseconds, and between two of them there is one poll: a large message,
// which takes many calls, goes a step further with each. A courier looks after it all the time, and
// needs no core for that: it sleeps while nothing is under way, and for some 50 us between two
// looks that found little to do, so what it takes from the one who computes is about what the
// messages cost anyhow. Where a core is *spare*, bound to this rank beside those that compute, it
// does not sleep as long as something is under way.
//
// One at a time is in MPI for the reductions: whoever has the *role*. The courier has it while it
// looks, else who polls or waits; a rank that waits for a reduction keeps it to the end, and the
// courier sleeps. To hand a reduction over nobody waits for the role: it goes into a ring that has
// one writer, from which whoever has the role next takes it and starts it in MPI.
//
// What MPI adds up, it adds up in the thread that calls it. A thread has the floating-point mode of
// the one that made it (denormal numbers flushed to zero, or not), so the courier is made when a
// communicator is prepared for it, by the thread that computes.
#pragma once

#include <mpi.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace meshwork {

/// Who brings on what was started. `automatic` is what MESHWORK_PROGRESS says, or the best there
/// is.
enum class Progress : std::uint8_t { automatic, thread, polls, none };

/// What `wanted` comes to with this MPI. Throws for a word that MESHWORK_PROGRESS does not know,
/// and where a thread is wanted that MPI does not allow.
[[nodiscard]] Progress settled(Progress wanted);

/// An all-reduce in place, from when it is handed over until it was waited for.
class MpiReduction {
 public:
  MPI_Comm communicator = MPI_COMM_NULL;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Op operation = MPI_OP_NULL;
  std::byte* buffer = nullptr;
  std::int64_t count = 0;    // elements
  std::int64_t width = 1;    // bytes of one
  std::int64_t largest = 1;  // elements that MPI is handed in one call

  [[nodiscard]] bool is_over() const { return over_.load(std::memory_order_acquire); }

 private:
  friend class MpiReductions;
  std::atomic<bool> over_{true};
  // Of who has the role, until it is over.
  int left_ = 0;         // calls of MPI
  std::string failure_;  // empty: there is none
};

class MpiReductions {
 public:
  /// `progress` is settled. `has_spare_core`: the courier need not sleep between looks.
  explicit MpiReductions(Progress progress, bool has_spare_core = false);
  /// Ends the courier. Nothing is under way any more.
  ~MpiReductions();
  /// Ends the courier's work, if there is one; what is under way stays so.
  void stop();
  MpiReductions(const MpiReductions&) = delete;
  MpiReductions& operator=(const MpiReductions&) = delete;

  [[nodiscard]] Progress progress() const { return progress_; }
  /// Makes the courier, if there is to be one and is none.
  void make_courier();
  /// Takes the memory that `count` calls of MPI under way at once need.
  void reserve(std::size_t count);

  // By the thread that computes:

  /// Starts a reduction. It stays where it is until it is waited for.
  void hand_over(MpiReduction& reduction);
  /// Brings reductions on if that is done by polls, without waiting.
  void advance();
  /// Returns when it is over. Throws if MPI has failed.
  void wait(MpiReduction& reduction);

 private:
  // With the role.
  void take();
  void look();
  void start(MpiReduction& reduction);
  void complete(MpiReduction& reduction);
  void fail_all(const std::string& why);

  void be_courier();
  void ring();

  Progress progress_;
  bool has_spare_core_;

  static constexpr std::uint64_t places = 64;
  std::array<MpiReduction*, places> handed_over_{};  // the ring
  std::atomic<std::uint64_t> handed_{0};             // ever; written by who hands over
  std::atomic<std::uint64_t> taken_{0};              // of them; written by who has the role

  std::mutex role_;
  // Of who has the role: the calls of MPI under way, and whose they are.
  std::vector<MPI_Request> requests_;
  std::vector<MpiReduction*> owners_;
  std::vector<int> indices_;

  std::atomic<std::uint32_t> bell_{0};   // rung when the courier has a reason to look
  std::atomic<bool> waited_for_{false};  // the thread that computes has the role, or will
  std::atomic<bool> ends_{false};
  std::thread courier_;
};

}  // namespace meshwork

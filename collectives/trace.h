// What a rank is doing, for others to read: the collectives that it enters, numbered.
//
// The thread that communicates writes, with two stores when it enters a collective and one when it
// leaves; any other thread reads at any time. Collectives are numbered from 1 in the order in which
// they are entered. Every rank of a job enters the same ones in the same order, so that *positions*
// can be compared between ranks: the others wait for the rank whose position is the lowest. A
// position is even outside of collectives, twice the number of the last one, and odd inside.
//
// Of a collective that is *enqueued* (enqueued.h) the thread knows only that it was started: it
// goes on while the device waits for other ranks, many collectives ahead, and what it waits for in
// the end may be no collective at all. The device itself counts what it has done. As long as it has
// not done all that it was given, the rank's position is inside the first collective that it has
// not done.
//
// Labels are made when programs are made and live as long as the trace; a step only stores their
// addresses. A *passing* label, of one checkpoint say, lives as long as its point and then until
// later collectives have taken its place among the last ones. Besides collectives a trace holds
// the rank's *activity*: the instruction or the part of a run that it is in, which says where a
// rank is that does not come to a collective.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "collectives/enqueued.h"

namespace meshwork {

class CollectiveTrace {
 public:
  /// The last so many collectives are remembered: more than those of the few steps that a device is
  /// behind. Of more it is not known how far the device is with the earlier ones.
  static constexpr std::size_t kept = 4096;

  CollectiveTrace() = default;
  CollectiveTrace(const CollectiveTrace&) = delete;
  CollectiveTrace& operator=(const CollectiveTrace&) = delete;

  /// `text`, kept for the life of the trace; the same address for the same text. May allocate.
  [[nodiscard]] const std::string* label(const std::string& text);

  /// A passing label, which goes with the last holder, unless the last collectives name it still.
  /// The trace outlives it. Allocates.
  [[nodiscard]] std::shared_ptr<const std::string> passing_label(const std::string& text);

  /// Enters the next collective.
  void enter(const std::string* label) noexcept {
    const std::uint64_t next = position_.load(std::memory_order_relaxed) / 2 + 1;
    Entry& entry = entered_[next % kept];
    entry.operations.store(0, std::memory_order_relaxed);
    entry.label.store(label, std::memory_order_release);
    position_.store(2 * next + 1, std::memory_order_release);
  }
  /// The collective that was entered last has enqueued operations, up to the one with this number
  /// (Enqueued::started).
  void note_enqueued(std::uint64_t operations) noexcept {
    entered_[position_.load(std::memory_order_relaxed) / 2 % kept].operations.store(
        operations, std::memory_order_release);
  }
  /// The operations that are meant: they outlive the trace. Null: there are none.
  void follow(const Enqueued* enqueued) { enqueued_.store(enqueued, std::memory_order_release); }

  void leave() noexcept {
    position_.store(position_.load(std::memory_order_relaxed) & ~std::uint64_t{1},
                    std::memory_order_relaxed);
  }

  /// Sets the activity and returns the one before. Null: nothing in particular.
  const std::string* begin(const std::string* activity) noexcept {
    const std::string* before = activity_.load(std::memory_order_relaxed);
    activity_.store(activity, std::memory_order_release);
    return before;
  }
  /// Where the activity is stored, for those who set it often. With release, so that whoever reads
  /// the address reads the text as well.
  [[nodiscard]] std::atomic<const std::string*>& activity() { return activity_; }

  // ---- for readers, on any thread ---------------------------------------------------------------

  [[nodiscard]] std::uint64_t position() const;
  /// The labels of the last collectives up to that of `position`, the latest first, at most
  /// `count`. Labels of a trace that goes on meanwhile may be newer.
  [[nodiscard]] std::vector<std::string> last(std::uint64_t position, std::size_t count) const;
  /// The text of the activity, or "".
  [[nodiscard]] std::string doing() const;

 private:
  void retire(std::unique_ptr<const std::string> label);
  [[nodiscard]] bool names(const std::string* label) const;

  struct Entry {
    std::atomic<const std::string*> label{nullptr};
    std::atomic<std::uint64_t> operations{0};  // that are done when it is; 0: it enqueues none
  };
  std::array<Entry, kept> entered_{};
  std::atomic<std::uint64_t> position_{0};  // of the thread
  std::atomic<const Enqueued*> enqueued_{nullptr};
  std::atomic<const std::string*> activity_{nullptr};

  mutable std::mutex labels_mutex_;  // of readers too: what they read is not freed meanwhile
  std::set<std::string> labels_;     // whose elements do not move
  std::vector<std::unique_ptr<const std::string>> retired_;  // that the last collectives may name
  std::size_t sweep_at_ = 64;                                // so many, twice as many as stayed
};

/// The number of the collective that a position is inside of, or of the last one.
[[nodiscard]] constexpr std::uint64_t sequence_of(std::uint64_t position) {
  return position / 2;
}
[[nodiscard]] constexpr bool is_inside(std::uint64_t position) {
  return position % 2 == 1;
}

/// Where a collective is recorded and what it is called. Empty: nowhere.
struct TracePoint {
  CollectiveTrace* trace = nullptr;
  std::shared_ptr<const std::string> label;

  TracePoint() = default;
  /// A passing label of `trace`, which may be null. May allocate.
  TracePoint(CollectiveTrace* where, const std::string& text)
      : trace(where), label(where != nullptr ? where->passing_label(text) : nullptr) {}
};

/// Inside a collective for as long as it lives. A null trace records nothing.
class TracedCollective {
 public:
  TracedCollective(CollectiveTrace* trace, const std::string* label) : trace_(trace) {
    if (trace_ != nullptr) trace_->enter(label);
  }
  explicit TracedCollective(TracePoint at) : TracedCollective(at.trace, at.label.get()) {
    at_ = std::move(at);
  }
  ~TracedCollective() {
    if (trace_ != nullptr) trace_->leave();
  }
  TracedCollective(const TracedCollective&) = delete;
  TracedCollective& operator=(const TracedCollective&) = delete;

 private:
  CollectiveTrace* trace_;
  TracePoint at_;  // whose label it is, if it passes
};

/// Sets the activity for as long as it lives. A null trace records nothing.
class TracedActivity {
 public:
  TracedActivity(CollectiveTrace* trace, const std::string* activity) : trace_(trace) {
    if (trace_ != nullptr) before_ = trace_->begin(activity);
  }
  explicit TracedActivity(TracePoint at) : TracedActivity(at.trace, at.label.get()) {
    at_ = std::move(at);
  }
  ~TracedActivity() {
    if (trace_ != nullptr) (void)trace_->begin(before_);
  }
  TracedActivity(const TracedActivity&) = delete;
  TracedActivity& operator=(const TracedActivity&) = delete;

 private:
  CollectiveTrace* trace_;
  const std::string* before_ = nullptr;
  TracePoint at_;  // whose label it is, if it passes
};

}  // namespace meshwork

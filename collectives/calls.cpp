#include "collectives/calls.h"

#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <limits>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>

#include "collectives/call_bells.h"
#include "collectives/call_messages.h"
#include "collectives/hosted.h"
#include "collectives/mpi_reductions.h"
#include "collectives/nodes.h"
#include "collectives/rank_names.h"
#include "collectives/text_list.h"
#include "collectives/thread_trace.h"
#include "collectives/thread_without_signals.h"

namespace meshwork {

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

/// What a message of the service is. An answer ends the call with the same number.
struct CallKind {
  static constexpr std::uint8_t request = 0, answer = 1, failure = 2, unknown = 3;
};

// Requests of a rank at another; those that functions make do not count.
constexpr std::size_t call_window = 16;
constexpr Seconds longest_sleep{0.05};                      // of the leader, if nobody rings
constexpr int sleeps_before_trim = 20;                      // a second without calls
constexpr Seconds short_sleep{1e-3};                        // the same while something is under way
constexpr std::chrono::milliseconds standby_tick{1};        // of the standby
constexpr std::chrono::milliseconds between_checks{100};    // of a wait: whether it is in vain
constexpr std::chrono::milliseconds parting_patience{300};  // with a rank that leaves
constexpr std::chrono::milliseconds between_rings{1};
constexpr std::chrono::seconds thread_patience{1};  // where the service ends without the others
constexpr std::chrono::milliseconds between_looks_at_the_end{20};
// A look takes about a microsecond, and some instructions little more.
constexpr std::chrono::microseconds between_advances{50};
constexpr int looks_between_clocks = 16;
constexpr std::chrono::microseconds before_rings{20};
constexpr std::int64_t no_thread = -1;

Clock::duration duration_of(Seconds seconds) {
  return std::chrono::duration_cast<Clock::duration>(seconds);
}

std::vector<int> named_ranks_of(const Communicator& ranks) {
  std::vector<int> named = job_ranks_of(ranks);
  std::ranges::transform(named, named.begin(), name_of_rank);
  return named;
}

}  // namespace

/// A call from its request to its answer. Guarded by the service's mutex but for `is_done`, after
/// which nobody writes.
struct CallState {
  int callee = 0;
  std::string name;
  double seconds = 0;
  Clock::time_point deadline = Clock::time_point::max();
  bool is_dropped = false;  // nobody wants the answer any more
  CallPayload payload;
  std::exception_ptr error;
  std::atomic<bool> is_done{false};
};

class CallService : public std::enable_shared_from_this<CallService> {
 public:
  CallService(const Communicator& ranks, const CallsOptions& options)
      : options_(options),
        named_ranks_(named_ranks_of(ranks)),
        has_threads_(options.threads && Calls::can_have_threads()),
        bells_(ranks),
        messages_(ranks),
        rank_(ranks.rank()),
        size_(ranks.size()),
        windows_(static_cast<std::size_t>(ranks.size())) {
    if (!(options.awake_seconds >= 0)) fail("calls: awake_seconds must be at least 0");
  }

  void start() {
    if (!has_threads_) return;
    const std::scoped_lock lock(mutex_);
    add_thread();
    add_thread();
  }

  [[nodiscard]] bool has_threads() const { return has_threads_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] std::int64_t looks() const { return looks_; }
  [[nodiscard]] bool is_asleep() const { return is_asleep_; }

  void define(std::string name, CallFunction function) {
    if (name.size() > CallMessages::longest_name) {
      fail("the name of a function has {} bytes, of at most {}: \"{}\"", name.size(),
           CallMessages::longest_name, name);
    }
    const std::scoped_lock lock(mutex_);
    const auto [place, is_new] =
        functions_.try_emplace(name, std::make_shared<const CallFunction>(std::move(function)));
    if (!is_new) fail("the function \"{}\" is defined on this rank already", name);
  }

  void open() {
    {
      const std::scoped_lock lock(mutex_);
      is_open_ = true;
    }
    wake_leader();
  }

  std::shared_ptr<CallState> call(int rank, std::string_view name, CallPayload arguments,
                                  const CallOptions& options);
  /// Waits until the call is over, or for `seconds`. Whether it is over.
  bool await_call(CallState& state, double seconds);
  CallPayload take(CallState& state);
  void drop(CallState& state) {
    const std::scoped_lock lock(mutex_);
    state.is_dropped = true;
    state.payload = {};
  }
  void require_present(int rank, std::string_view where);
  void progress();
  bool advance();
  bool serve(const std::function<bool()>& ready, double seconds, const std::string& doing);
  void close();
  void abandon();

 private:
  /// Whom a call was made to, as long as there is no answer.
  struct Unanswered {
    std::shared_ptr<CallState> state;
    bool counts = false;  // in the window
  };
  struct Window {
    std::size_t unanswered = 0;
    std::deque<CallMessage> waiting;
  };
  struct RunningFunction {
    std::string name;
    Clock::time_point since{};  // it began, or had its answer; none: not noted yet
    bool waits = false;         // for an answer of another, or then for its turn
  };
  struct ServingThread {
    std::thread thread;
    bool is_over = false;
  };

  // ---- with the role ----
  bool look();
  void send_all();
  void send_one(CallMessage&& message);
  void ring_callers();
  void deliver(CallMessage& message);
  // ---- from any thread ----
  void send(CallMessage&& message);
  template <class Send>
  bool try_send(const Send& send);
  void flush();
  void wake_leader();
  void enter_looking();
  [[nodiscard]] bool leave_looking();
  [[nodiscard]] bool try_look(bool& moved);
  [[nodiscard]] bool look_last();
  [[nodiscard]] bool needs_leader() const;
  bool run_one();
  void give_turn(RunningFunction& function);
  void take_turn(RunningFunction& function);
  void doze(bool& was_rung);
  template <class Ready, class Check, class Doing>
  bool wait(const Ready& ready, Clock::time_point until, const Check& check, const Doing& doing);
  void expire(CallState& state);
  // ---- with the mutex ----
  void complete(CallState& state);
  void end_with(CallState& state, std::exception_ptr error);
  void end_all(const std::string& why);
  void admit(int rank);
  void add_thread();
  void note_running();
  // ---- threads ----
  void serve(std::int64_t me);
  void lead(std::int64_t me);
  void stop_threads(bool unwinds);

  [[nodiscard]] std::string name_of(int rank) const {
    const auto index = static_cast<std::size_t>(rank);
    const std::string number = std::to_string(named_ranks_[index]);
    if (index >= options_.titles.size()) return number;
    return fmt::format("{} ({})", number, options_.titles[index]);
  }

  const CallsOptions options_;
  const std::vector<int> named_ranks_;  // as messages name them
  const bool has_threads_;
  CallBells bells_;

  std::mutex role_;
  CallMessages messages_;
  MPI_Request end_ = MPI_REQUEST_NULL;  // all ranks have come to the end
  Clock::time_point rung_;              // who has to look for us to go on
  std::vector<int> to_ring_;            // whose answers have been sent
  Clock::time_point ring_at_;
  Clock::time_point advance_at_;  // of the thread that made the service, without threads

  const int rank_, size_;
  std::atomic<int> culprit_{rank_};  // on account of whom this rank leaves the others
  std::atomic<std::int64_t> looks_{0};
  std::atomic<bool> under_way_{false};  // in `messages_`, after the last look
  std::atomic<bool> all_have_come_{false};
  std::atomic<int> lookers_{0};  // threads that look, or will at once
  std::atomic<int> waiters_{0};  // of these those that wait for an answer
  std::atomic<std::size_t> to_send_count_{0}, ready_count_{0}, call_count_{0};  // of those below
  std::atomic<bool> leader_waits_{false};
  std::atomic<bool> is_broken_{false}, is_open_{false}, is_asleep_{true}, ends_{false},
      is_turn_taken_{false};
  std::atomic<std::int64_t> leader_{no_thread};

  std::mutex mutex_;
  std::condition_variable threads_, turn_is_free_, answers_;
  std::map<std::string, std::shared_ptr<const CallFunction>, std::less<>> functions_;
  std::unordered_map<std::uint64_t, Unanswered> calls_;
  std::uint64_t next_number_ = 0;
  std::vector<Window> windows_;  // by callee
  std::deque<CallMessage> to_send_, ready_;
  int sleepers_ = 0;  // in `answers_`
  bool is_closed_ = false, has_ended_ = false;
  std::string broken_;  // by an error of MPI
  std::list<RunningFunction> running_;
  // How many turns functions have begun to take; the last one that a standby has seen, and when it
  // saw it first.
  std::uint64_t turns_ = 0, noted_turn_ = 0;
  Clock::time_point turn_noted_;
  bool leader_runs_ = false;
  std::map<std::int64_t, ServingThread> serving_;
  std::int64_t next_thread_ = 0;
  int standbys_ = 0;
  std::atomic<int> sleeps_{0};  // of the leader, since anything happened
  bool leader_looks_ = false;   // one of the lookers is the leader, whichever thread that is
  bool standby_ticks_ = false;
};

namespace {

/// Between two looks that were in vain: pauses for a moment, and after some of them gives the
/// processor away. How many these are is learned from how long that takes: where another thread
/// wanted the processor, soon after few; where none did, after many.
class LookPauses {
 public:
  void pause() {
    if (++pauses_ < spins_) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#elif defined(__aarch64__)
      __asm__ volatile("yield");
#endif
      return;
    }
    const Clock::time_point start = Clock::now();
    ::sched_yield();
    const bool was_wanted = Clock::now() - start > longest_vain_yield;
    spins_ = was_wanted ? std::max(spins_ / 2, fewest) : std::min(2 * spins_, most);
  }
  /// A look was not in vain.
  void end() {
    pauses_ = 0;
  }

 private:
  static constexpr int fewest = 4, most = 64;
  // A yield takes half a microsecond if no other thread wants the processor, and two microseconds or
  // more if one runs in between.
  static constexpr std::chrono::nanoseconds longest_vain_yield{1200};
  int pauses_ = 0;
  int spins_ = most;
};

/// The service whose function this thread runs, which one that is, and which thread of the service
/// it is.
thread_local CallService* serving_for = nullptr;
thread_local void* serving_function = nullptr;  // a RunningFunction
thread_local std::int64_t serving_thread = no_thread;
thread_local LookPauses pauses;  // of a thread that looks

}  // namespace

// ---- making calls -------------------------------------------------------------------------------

std::shared_ptr<CallState> CallService::call(int rank, std::string_view name, CallPayload arguments,
                                             const CallOptions& options) {
  if (rank < 0 || rank >= size_) {
    fail("a call of \"{}\" is for rank {}, and the ranks are 0 to {}", name, rank, size_ - 1);
  }
  if (name.size() > CallMessages::longest_name)
    fail("no function has so long a name: \"{}\"", name);
  if (arguments.blocks.size() > CallPayload::most_blocks) {
    fail("a call of \"{}\" has {} blocks, and {} at most are possible", name,
         arguments.blocks.size(), CallPayload::most_blocks);
  }
  auto state = std::make_shared<CallState>();
  state->callee = rank;
  state->name = name;
  state->seconds = options.seconds < 0 ? options_.seconds : options.seconds;
  if (state->seconds > 0 && state->seconds < 1e9) {
    state->deadline = Clock::now() + duration_of(Seconds(state->seconds));
  }
  CallMessage message{.rank = rank,
                      .kind = CallKind::request,
                      .name = std::string(name),
                      .payload = std::move(arguments)};
  const bool is_inside = serving_for == this;
  {
    const std::scoped_lock lock(mutex_);
    if (!broken_.empty()) throw Error(broken_);
    if (ends_ || (is_closed_ && !is_inside)) fail("\"{}\" is called after the end of calls", name);
    message.number = next_number_++;
    calls_.emplace(message.number, Unanswered{state, !is_inside});
    call_count_ = calls_.size();
    Window& here = windows_[static_cast<std::size_t>(rank)];
    if (!is_inside && (here.unanswered == call_window || !here.waiting.empty())) {
      here.waiting.push_back(std::move(message));
      return state;
    }
    if (!is_inside) ++here.unanswered;
  }
  send(std::move(message));
  return state;
}

void CallService::admit(int rank) {
  Window& here = windows_[static_cast<std::size_t>(rank)];
  while (here.unanswered < call_window && !here.waiting.empty()) {
    CallMessage message = std::move(here.waiting.front());
    here.waiting.pop_front();
    const auto found = calls_.find(message.number);
    if (found != calls_.end() && found->second.state->is_done) {  // its time was over before
      calls_.erase(found);
      call_count_ = calls_.size();
      continue;
    }
    ++here.unanswered;
    to_send_.push_back(std::move(message));
    ++to_send_count_;
  }
}

bool CallService::await_call(CallState& state, double seconds) {
  if (state.is_done.load(std::memory_order_acquire)) return true;
  Clock::time_point until = Clock::time_point::max();
  if (seconds < 1e9) until = Clock::now() + duration_of(Seconds(std::max(seconds, 0.0)));
  until = std::min(until, state.deadline);
  Clock::time_point noticed{};
  const auto check = [&] {
    if (!bells_.is_gone(state.callee)) return;
    // One that leaves for an error of its own ends the job with that, which says more.
    const Clock::time_point now = Clock::now();
    if (noticed == Clock::time_point{}) noticed = now;
    if (now - noticed < parting_patience) return;
    culprit_ = state.callee;
    const std::scoped_lock lock(mutex_);
    end_with(state, std::make_exception_ptr(RanksParted(fmt::format(
                        "rank {} has died or left, and rank {} waits for its answer to \"{}\"",
                        name_of(state.callee), name_of(rank_), state.name))));
  };
  const auto doing = [&] {
    return fmt::format("a call of \"{}\" on rank {}", state.name, name_of(state.callee));
  };
  const auto is_done = [&] { return state.is_done.load(std::memory_order_acquire); };
  if (!wait(is_done, until, check, doing)) expire(state);
  return is_done();
}

void CallService::expire(CallState& state) {
  if (Clock::now() < state.deadline) return;
  const std::scoped_lock lock(mutex_);
  end_with(state, std::make_exception_ptr(
                      CallTimedOut(fmt::format("rank {} has not answered \"{}\" within {} s",
                                               name_of(state.callee), state.name, state.seconds))));
}

CallPayload CallService::take(CallState& state) {
  while (!await_call(state, std::numeric_limits<double>::infinity())) {
  }
  if (state.error) std::rethrow_exception(state.error);
  return std::move(state.payload);
}

void CallService::complete(CallState& state) {
  state.is_done.store(true, std::memory_order_release);
  if (sleepers_ > 0) answers_.notify_all();
}

void CallService::end_with(CallState& state, std::exception_ptr error) {
  if (state.is_done) return;
  state.error = std::move(error);
  complete(state);
}

void CallService::end_all(const std::string& why) {
  if (broken_.empty()) broken_ = why;
  is_broken_ = true;
  for (const auto& [number, call] : calls_) {
    end_with(*call.state, std::make_exception_ptr(Error(why)));
  }
  calls_.clear();
  call_count_ = 0;
}

// ---- with the role ------------------------------------------------------------------------------

void CallService::send_all() {
  while (to_send_count_.load() > 0) {
    CallMessage message;
    {
      const std::scoped_lock lock(mutex_);
      if (to_send_.empty()) return;
      message = std::move(to_send_.front());
      to_send_.pop_front();
      --to_send_count_;
    }
    send_one(std::move(message));
  }
}

void CallService::send_one(CallMessage&& message) {
  const int rank = message.rank;
  const bool is_answer = message.kind != CallKind::request;
  messages_.send(std::move(message));
  if (is_answer && lookers_.load() > 0) {
    if (std::ranges::find(to_ring_, rank) == to_ring_.end()) to_ring_.push_back(rank);
    ring_at_ = Clock::now() + before_rings;
    if (lookers_.load() > 0) return;
  }
  bells_.ring(rank);
}

/// Rings those to whom answers have gone, and who mostly look for them by now: one that has just
/// called is about to wait.
void CallService::ring_callers() {
  for (const int rank : to_ring_) bells_.ring(rank);
  to_ring_.clear();
}

bool CallService::look() {
  if (is_broken_) return false;
  const std::int64_t looks = looks_.fetch_add(1, std::memory_order_relaxed);
  try {
    const bool sends = to_send_count_.load(std::memory_order_relaxed) > 0;
    if (sends) send_all();
    const bool moved = messages_.look([this](CallMessage& message) { deliver(message); }) || sends;
    if (!to_ring_.empty() && looks % looks_between_clocks == 0 && Clock::now() >= ring_at_) {
      ring_callers();
    }
    const bool under_way = messages_.is_under_way();
    under_way_.store(under_way, std::memory_order_relaxed);
    if (under_way) {
      const Clock::time_point now = Clock::now();
      if (now - rung_ > between_rings) {
        rung_ = now;
        messages_.for_awaited([this](int rank) { bells_.ring(rank); });
      }
    }
    if (end_ != MPI_REQUEST_NULL) {
      int done = 0;
      check_mpi(MPI_Test(&end_, &done, MPI_STATUS_IGNORE), "MPI_Test for the end of calls");
      if (done != 0) all_have_come_ = true;
    }
    return moved;
  } catch (const std::exception& error) {
    const std::scoped_lock lock(mutex_);
    end_all(fmt::format("calls between ranks: {}", message_of(error)));
    return true;
  }
}

void CallService::deliver(CallMessage& message) {
  const std::scoped_lock lock(mutex_);
  if (message.kind == CallKind::request) {
    ready_.push_back(std::move(message));
    ++ready_count_;
    return;
  }
  const auto found = calls_.find(message.number);
  if (found == calls_.end()) internal_error("an answer arrived without a waiting call");
  const std::shared_ptr<CallState> state = std::move(found->second.state);
  const bool counts = found->second.counts;
  calls_.erase(found);
  call_count_ = calls_.size();
  if (counts) {
    --windows_[static_cast<std::size_t>(message.rank)].unanswered;
    admit(message.rank);
  }
  if (state->is_done) return;
  const auto error_of = [&](auto made) { state->error = std::make_exception_ptr(std::move(made)); };
  const auto callee = [&] { return name_of(state->callee); };
  if (!message.lost.empty()) {
    error_of(CallFailed(
        fmt::format("the answer of rank {} to \"{}\": {}", callee(), state->name, message.lost)));
  } else if (message.kind == CallKind::failure) {
    error_of(CallFailed(
        fmt::format("rank {}, function \"{}\": {}", callee(), state->name, message.payload.front)));
  } else if (message.kind == CallKind::unknown) {
    std::vector<std::string> names = entries_of(message.payload.front);
    std::string list;
    for (const std::string& name : names) {
      list += fmt::format("{}\"{}\"", list.empty() ? "" : ", ", name);
    }
    error_of(UnknownFunction(fmt::format("rank {} has no function \"{}\"; it has {}", callee(),
                                         state->name, list.empty() ? "none" : list),
                             std::move(names)));
  } else if (!state->is_dropped) {
    state->payload = std::move(message.payload);
  }
  complete(*state);
}

// ---- who looks ----------------------------------------------------------------------------------

void CallService::wake_leader() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (leader_waits_.load(std::memory_order_relaxed)) bells_.ring_own();
}

void CallService::enter_looking() {
  if (lookers_.fetch_add(1) == 0) bells_.stop_listening();
}

/// Whether it was the last: then one more look is due.
bool CallService::leave_looking() {
  if (lookers_.fetch_sub(1) != 1) return false;
  bells_.listen();
  return true;
}

/// Looks, unless another thread does. Whether it did.
bool CallService::try_look(bool& moved) {
  const std::unique_lock role(role_, std::try_to_lock);
  if (!role) return false;
  if (look()) moved = true;
  return true;
}

/// The look that is due when this rank listens. Whether anything moved.
bool CallService::look_last() {
  const std::scoped_lock role(role_);
  const bool moved = look();
  ring_callers();
  return moved;
}

/// Whether there is something to do that waits for nobody.
bool CallService::needs_leader() const {
  return to_send_count_.load() > 0 || ends_ ||
         (ready_count_.load() > 0 && is_open_ && !is_turn_taken_);
}

/// Calls `send` unless another thread has the role. Whether it did.
template <class Send>
bool CallService::try_send(const Send& send) {
  const std::unique_lock role(role_, std::try_to_lock);
  if (!role) return false;
  if (is_broken_) return true;
  try {
    send();
    under_way_.store(messages_.is_under_way(), std::memory_order_relaxed);
  } catch (const std::exception& error) {
    const std::scoped_lock lock(mutex_);
    end_all(fmt::format("calls between ranks: {}", message_of(error)));
  }
  return true;
}

/// Sends a message behind those that are to be sent, or leaves it to the thread that looks.
void CallService::send(CallMessage&& message) {
  if (to_send_count_.load() > 0 || !try_send([&] { send_one(std::move(message)); })) {
    const std::scoped_lock lock(mutex_);
    to_send_.push_back(std::move(message));
    ++to_send_count_;
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (to_send_count_.load() > 0) {  // this one, or what others have left to this thread meanwhile
    flush();
  } else if (under_way_) {
    wake_leader();
  }
}

/// Sends all that is to be sent, or leaves it to the thread that looks.
void CallService::flush() {
  bool has_sent = true;
  do {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    has_sent = try_send([this] { send_all(); });  // else who has the role sees it before it sleeps
  } while (has_sent && to_send_count_.load() > 0 && !is_broken_);
  if (!has_sent || under_way_) wake_leader();
}

/// Returns true when `ready()`, or false at `until`. It looks, and sleeps where that is in vain for
/// some time. `check` is called now and then. `doing` says what this rank does meanwhile.
template <class Ready, class Check, class Doing>
bool CallService::wait(const Ready& ready, Clock::time_point until, const Check& check,
                       const Doing& doing) {
  /// A function that waits lets others run.
  struct Turn {
    CallService* service;
    RunningFunction* function = static_cast<RunningFunction*>(serving_function);
    explicit Turn(CallService* of) : service(of) {
      if (service != nullptr) service->give_turn(*function);
    }
    ~Turn() {
      if (service != nullptr) service->take_turn(*function);
    }
  };
  const Turn turn_of_others(serving_for == this ? this : nullptr);
  /// Looks as long as it lives.
  struct Looking {
    CallService& service;
    bool looks = false;
    explicit Looking(CallService& of) : service(of) { start(); }
    ~Looking() { stop(); }
    void start() {
      if (std::exchange(looks, true)) return;
      ++service.waiters_;
      service.enter_looking();
    }
    void stop() {
      if (!std::exchange(looks, false)) return;
      --service.waiters_;
      // Who rings from now on wakes the leader; what came before is seen here.
      if (service.leave_looking()) static_cast<void>(service.look_last());
      if (service.under_way_ || service.needs_leader()) service.wake_leader();
    }
  };
  Looking looking(*this);
  Clock::time_point idle_since{}, checked{};  // set at the first look at the clock
  std::optional<TracedActivity> activity;
  for (int turn = 1;; ++turn) {
    if (ready()) return true;
    bool moved = false;
    if (looking.looks) static_cast<void>(try_look(moved));
    if (!has_threads_ && run_one()) moved = true;
    if (moved) {
      pauses.end();
      if (has_threads_ && ready_count_.load(std::memory_order_relaxed) > 0) wake_leader();
      idle_since = {};
    }
    if (turn % looks_between_clocks != 0) {
      if (!moved) pauses.pause();
      continue;
    }
    const Clock::time_point now = Clock::now();
    if (now >= until) return false;
    if (idle_since == Clock::time_point{}) idle_since = now;
    if (checked == Clock::time_point{}) checked = now;
    if (now - checked > between_checks) {
      checked = now;
      // What is left waiting is the service's own, so the job is not broken by it.
      if (Hosted* const hosted = Hosted::current()) hosted->look();
      check();
      continue;
    }
    if (now - idle_since < duration_of(Seconds(options_.awake_seconds))) {
      pauses.pause();
      continue;
    }
    if (!activity) {
      CollectiveTrace* const trace = ThreadTrace::current();
      activity.emplace(trace != nullptr ? TracePoint(trace, doing()) : TracePoint());
    }
    const Clock::time_point limit = std::min(until, now + between_checks);
    if (has_threads_) {
      // The leader looks.
      looking.stop();
      std::unique_lock lock(mutex_);
      ++sleepers_;
      answers_.wait_until(lock, limit, ready);
      --sleepers_;
      turn = looks_between_clocks - 1;
    } else {
      const std::uint32_t heard = bells_.rings();
      looking.stop();
      if (!ready() && !needs_leader()) {
        const Seconds left = limit - now;
        bells_.sleep(heard, std::min(left, under_way_ ? short_sleep : longest_sleep).count());
      }
      looking.start();
      if (bells_.rings() != heard) idle_since = {};
      turn = looks_between_clocks - 2;  // looks first
    }
  }
}

bool CallService::advance() {
  if (has_threads_ || ends_) return false;
  const Clock::time_point now = Clock::now();
  if (now < advance_at_) return false;
  bool moved = false;
  static_cast<void>(try_look(moved));
  const bool ran = run_one();
  advance_at_ = moved || ran ? now : now + between_advances;
  return ran;
}

bool CallService::serve(const std::function<bool()>& ready, double seconds,
                        const std::string& doing) {
  Clock::time_point until = Clock::time_point::max();
  if (seconds < 1e9) until = Clock::now() + duration_of(Seconds(std::max(seconds, 0.0)));
  const auto is_over = [&] { return is_broken_ || ready(); };
  // Inside of a function it has the turn, so that no other could make it ready.
  if (!has_threads_ && serving_for == this && !is_over()) {
    fail(
        "{}: a called function waits for its own rank, which is busy running it: the service has "
        "no threads",
        doing);
  }
  const bool came = wait(
      is_over, until, [] {}, [&] { return doing; });
  const std::scoped_lock lock(mutex_);
  if (is_broken_) throw Error(broken_);
  return came;
}

void CallService::progress() {
  if (has_threads_ || ends_) return;
  bool moved = true;
  while (moved) {
    moved = false;
    static_cast<void>(try_look(moved));
    if (run_one()) moved = true;
  }
}

// ---- functions ----------------------------------------------------------------------------------

/// Runs a function that was called, if there is one and none runs. Whether it did.
bool CallService::run_one() {
  if (ready_count_.load(std::memory_order_relaxed) == 0 || !is_open_ || is_turn_taken_)
    return false;
  CallMessage message;
  std::shared_ptr<const CallFunction> function;
  CallMessage reply;
  std::list<RunningFunction>::iterator running;
  const bool is_leader = leader_.load(std::memory_order_relaxed) == serving_thread && has_threads_;
  {
    const std::scoped_lock lock(mutex_);
    if (ready_.empty() || is_turn_taken_) return false;
    message = std::move(ready_.front());
    ready_.pop_front();
    --ready_count_;
    is_turn_taken_ = true;
    ++turns_;
    // The standby notes since when: most are over before, and a clock takes longer than many.
    running = running_.insert(running_.end(), {message.name});
    if (is_leader) leader_runs_ = true;
    const auto found = functions_.find(message.name);
    if (found != functions_.end()) {
      function = found->second;
    } else {
      reply.kind = CallKind::unknown;
      for (const auto& [name, one] : functions_) append_entry(reply.payload.front, name);
    }
  }
  reply.rank = message.rank;
  reply.number = message.number;
  CallService* const outer = std::exchange(serving_for, this);
  void* const outer_function = std::exchange(serving_function, &*running);
  if (!message.lost.empty()) {
    reply.kind = CallKind::failure;
    reply.payload.front = "its arguments: " + message.lost;
  } else if (function) {
    reply.kind = CallKind::answer;
    try {
      reply.payload = (*function)(message.rank, std::move(message.payload));
      if (reply.payload.blocks.size() > CallPayload::most_blocks) {
        fail("it returns {} blocks, and {} at most are possible", reply.payload.blocks.size(),
             CallPayload::most_blocks);
      }
    } catch (const std::exception& error) {
      reply.kind = CallKind::failure;
      reply.payload = {.front = message_of(error)};
    } catch (...) {
      reply.kind = CallKind::failure;
      reply.payload = {.front = "it threw an object that is not a std::exception"};
    }
  }
  serving_for = outer;
  serving_function = outer_function;
  send(std::move(reply));  // first of all: somebody waits for it
  function.reset();
  {
    const std::scoped_lock lock(mutex_);
    is_turn_taken_ = false;
    running_.erase(running);
    if (is_leader && leader_ == serving_thread) leader_runs_ = false;
  }
  if (has_threads_) turn_is_free_.notify_one();
  return true;
}

/// Notes of functions that they run, from now on if that is new.
void CallService::note_running() {
  for (RunningFunction& one : running_) {
    if (one.since == Clock::time_point{}) one.since = Clock::now();
  }
}

/// The function of this thread waits: another may run, and another thread leads.
void CallService::give_turn(RunningFunction& function) {
  const std::scoped_lock lock(mutex_);
  if (has_threads_ && standbys_ == 0) add_thread();
  function.waits = true;
  is_turn_taken_ = false;
  turn_is_free_.notify_one();
  if (!has_threads_) return;
  if (leader_ == serving_thread) {
    leader_ = no_thread;
    leader_runs_ = false;
    threads_.notify_all();
  } else if (ready_count_ > 0) {
    wake_leader();
  }
}

void CallService::take_turn(RunningFunction& function) {
  std::unique_lock lock(mutex_);
  turn_is_free_.wait(lock, [this] { return !is_turn_taken_ || ends_; });
  is_turn_taken_ = true;
  function.waits = false;
  function.since = Clock::now();
}

// ---- threads ------------------------------------------------------------------------------------

void CallService::add_thread() {
  const std::int64_t number = next_thread_++;
  ServingThread& made = serving_[number];
  ++standbys_;
  try {
    made.thread =
        thread_without_signals([self = shared_from_this(), number] { self->serve(number); });
  } catch (const std::exception&) {
    --standbys_;
    serving_.erase(number);
    throw;
  }
}

/// Stands by until there is no leader, or one that does not come back, and then leads.
void CallService::serve(std::int64_t me) {
  serving_thread = me;
  std::unique_lock lock(mutex_);
  while (!ends_ && !is_broken_) {
    if (leader_ == no_thread) {
      leader_ = me;
      --standbys_;
      if (!std::exchange(leader_looks_, true)) enter_looking();
      if (standbys_ == 0) {
        try {
          add_thread();
        } catch (const std::exception&) {  // a function that needs one says so
        }
      }
      lock.unlock();
      lead(me);
      lock.lock();
      ++standbys_;
      threads_.notify_all();
      continue;
    }
    if (is_asleep_ || standby_ticks_) {
      threads_.wait(lock);
      continue;
    }
    standby_ticks_ = true;
    threads_.wait_for(lock, standby_tick);
    standby_ticks_ = false;
    note_running();
    const Clock::time_point now = Clock::now();
    if (std::exchange(noted_turn_, turns_) != turns_) turn_noted_ = now;
    if (leader_runs_ && now - turn_noted_ >= standby_tick) {
      leader_ = no_thread;
      leader_runs_ = false;
    }
  }
  serving_[me].is_over = true;
  threads_.notify_all();
}

void CallService::lead(std::int64_t me) {
  const auto awake = duration_of(Seconds(options_.awake_seconds));
  Clock::time_point active = Clock::now();
  const auto is_leader = [&] { return leader_.load(std::memory_order_relaxed) == me; };
  const auto wake_up = [&] {
    if (!is_asleep_) return;
    const std::scoped_lock lock(mutex_);
    is_asleep_ = false;
    sleeps_ = 0;
    threads_.notify_all();
  };
  int idle_looks = 0;
  while (!ends_ && !is_broken_) {
    // One that has lost the lead in a function runs those that have come meanwhile.
    if (needs_leader() && ready_count_.load(std::memory_order_relaxed) > 0) {
      wake_up();
      if (run_one()) {
        active = {};
        idle_looks = 0;
        continue;
      }
    }
    if (!is_leader()) break;
    bool moved = false;
    // Another thread of this rank looks while it waits, and leaves functions to this one.
    const bool others_look = waiters_.load(std::memory_order_relaxed) > 0;
    if (!others_look || to_send_count_.load(std::memory_order_relaxed) > 0) {
      static_cast<void>(try_look(moved));
    }
    if (moved) {
      pauses.end();
      wake_up();
      active = {};
      idle_looks = 0;
      continue;
    }
    if (++idle_looks % looks_between_clocks != 0) {
      pauses.pause();
      continue;
    }
    if (others_look) {
      bool was_rung = false;
      doze(was_rung);
      if (was_rung) active = {};
      continue;
    }
    const Clock::time_point now = Clock::now();
    if (active == Clock::time_point{}) active = now;
    if (now - active < awake) {
      pauses.pause();
      continue;
    }
    bool was_rung = false;
    doze(was_rung);
    // What the ring is for may still be on its way.
    if (was_rung) {
      active = {};
      idle_looks = 0;
    } else {
      idle_looks = looks_between_clocks - 2;  // one look, and to sleep again
    }
  }
  if (!is_broken_ || ends_) return;
  std::unique_lock lock(mutex_);
  const std::string why = broken_;
  lock.unlock();
  abort_or_break(why);
}

/// The leader sleeps until it is rung, or for a while.
void CallService::doze(bool& was_rung) {
  const std::uint32_t heard = bells_.rings();
  leader_waits_ = true;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  bool moved = false;
  const bool is_last = leave_looking();
  if (is_last) moved = look_last();
  if (!moved && !needs_leader()) {
    const bool under_way = under_way_;
    if (is_last && !under_way) {
      is_asleep_ = true;
      if (++sleeps_ == sleeps_before_trim) messages_.memory().trim();
    }
    bells_.sleep(heard, (under_way && is_last ? short_sleep : longest_sleep).count());
    was_rung = bells_.rings() != heard;
  } else {
    was_rung = true;
  }
  leader_waits_ = false;
  enter_looking();
}

// ---- the end ------------------------------------------------------------------------------------

void CallService::stop_threads(bool unwinds) {
  std::unique_lock lock(mutex_);
  ends_ = true;
  threads_.notify_all();
  turn_is_free_.notify_all();
  lock.unlock();
  bells_.ring_own();
  lock.lock();
  if (unwinds) {
    threads_.wait_for(lock, thread_patience, [this] {
      return std::ranges::all_of(serving_, [](const auto& one) { return one.second.is_over; });
    });
  }
  for (auto& [number, one] : serving_) {
    if (unwinds && !one.is_over) {
      one.thread.detach();  // its function does not return
      continue;
    }
    lock.unlock();
    one.thread.join();
    lock.lock();
  }
  serving_.clear();
}

/// Ends the service without the other ranks.
void CallService::abandon() {
  {
    const std::scoped_lock lock(mutex_);
    is_closed_ = true;
    if (std::exchange(has_ended_, true)) return;
    ends_ = true;  // before it is broken: the leader takes that for a failure of MPI otherwise
    end_all("the calls between ranks have ended");
  }
  stop_threads(true);
  // Only now: functions may take their time to end, and others wait no longer for one that has left.
  bells_.leave_for(culprit_);
}

/// From a rank that is gone and has not closed, nothing will come.
void CallService::require_present(int rank, std::string_view where) {
  if (!bells_.is_gone(rank)) return;
  const int culprit = bells_.culprit_of(rank);
  if (culprit < 0) return;
  culprit_ = culprit;
  throw RanksParted(fmt::format("rank {} has died or left, and rank {} waits for it {}",
                                name_of(culprit), name_of(rank_), where));
}

void CallService::close() {
  {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(is_closed_, true)) return;
    is_open_ = true;
  }
  const Clock::time_point start = Clock::now();
  Clock::time_point noticed = start;
  wake_leader();
  const auto check = [&] {
    if (const Clock::time_point now = Clock::now(); now - noticed > between_checks) {
      noticed = now;
      for (int rank = 0; rank < size_; ++rank) require_present(rank, "at the end of calls");
    }
    std::unique_lock lock(mutex_);
    note_running();
    const auto longest = std::ranges::min_element(
        running_, {}, [](const RunningFunction& one) { return std::pair(one.waits, one.since); });
    if (longest == running_.end() || longest->waits) return;
    const Clock::time_point now = Clock::now();
    if (now - std::max(start, longest->since) < duration_of(Seconds(options_.closing_seconds))) {
      return;
    }
    const std::string message = fmt::format(
        "the function \"{}\" has not returned after {:.1f} s, so the calls between ranks cannot "
        "end",
        longest->name, Seconds(now - longest->since).count());
    lock.unlock();
    abort_or_break(message);
    throw Error(message);
  };
  const auto doing = [] { return std::string("the end of calls between ranks"); };
  // Over all waits: each says so by itself only while it sleeps.
  CollectiveTrace* const trace = ThreadTrace::current();
  const TracedActivity activity(trace != nullptr ? TracePoint(trace, doing()) : TracePoint());
  const auto until = [&](const auto& ready) {
    while (!wait(ready, Clock::now() + between_looks_at_the_end, check, doing)) check();
    const std::scoped_lock lock(mutex_);
    if (is_broken_) throw Error(broken_);
  };
  // All that this rank asked for is answered, and its answers are sent.
  until([this] { return is_broken_ || (to_send_count_ == 0 && call_count_ == 0 && !under_way_); });
  {
    const std::scoped_lock role(role_);
    check_mpi(MPI_Ibarrier(messages_.native(), &end_), "MPI_Ibarrier at the end of calls");
  }
  until([this] { return is_broken_ || all_have_come_; });
  bells_.leave();
  stop_threads(false);
  const std::scoped_lock role(role_);
  messages_.finish();
  has_ended_ = true;
}

// ---- the values ---------------------------------------------------------------------------------

Answer::Answer(std::shared_ptr<CallService> service, std::shared_ptr<CallState> state)
    : service_(std::move(service)), state_(std::move(state)) {}

Answer& Answer::operator=(Answer&& other) noexcept {
  std::swap(service_, other.service_);
  std::swap(state_, other.state_);
  return *this;
}

Answer::~Answer() {
  if (state_) service_->drop(*state_);
}

std::string Answer::function() const {
  return state_ ? state_->name : "";
}

bool Answer::is_ready() const {
  if (!state_) return false;
  return service_->await_call(*state_, 0);
}

bool Answer::wait_for(double seconds) {
  if (!state_) fail("this answer has been taken, or is of no call");
  return service_->await_call(*state_, seconds);
}

CallPayload Answer::get() {
  if (!state_) fail("this answer has been taken, or is of no call");
  const std::shared_ptr<CallService> service = std::exchange(service_, nullptr);
  const std::shared_ptr<CallState> state = std::exchange(state_, nullptr);
  return service->take(*state);
}

namespace {

/// The services without threads that this thread has made.
thread_local std::vector<std::weak_ptr<CallService>> served_here;

}  // namespace

bool has_calls_to_advance() {
  // Another thread may have destroyed them.
  std::erase_if(served_here, [](const auto& service) { return service.expired(); });
  return !served_here.empty();
}

bool advance_calls() {
  bool ran = false;
  for (std::size_t i = 0; i < served_here.size(); ++i) {  // a function may make more of them
    const std::shared_ptr<CallService> service = served_here[i].lock();
    if (service && service->advance()) ran = true;
  }
  return ran;
}

Calls::Calls(const Communicator& ranks, const CallsOptions& options)
    : service_(std::make_shared<CallService>(ranks, options)) {
  service_->start();
  if (!service_->has_threads()) served_here.push_back(service_);
}

Calls::~Calls() {
  const Hosted* const hosted = Hosted::current();
  if (std::uncaught_exceptions() == 0 && (hosted == nullptr || !hosted->is_broken())) {
    try {
      service_->close();
    } catch (const std::exception& error) {
      abort_or_break(message_of(error));
    }
  }
  service_->abandon();
  std::erase_if(served_here, [this](const std::weak_ptr<CallService>& one) {
    const std::shared_ptr<CallService> service = one.lock();
    return service == nullptr || service == service_;
  });
}

void Calls::define(std::string name, CallFunction function) {
  service_->define(std::move(name), std::move(function));
}

void Calls::open() {
  service_->open();
}

Answer Calls::call(int rank, std::string_view name, CallPayload arguments,
                   const CallOptions& options) {
  return {service_, service_->call(rank, name, std::move(arguments), options)};
}

void Calls::require_present(int rank, std::string_view where) {
  service_->require_present(rank, where);
}

void Calls::progress() {
  service_->progress();
}

bool Calls::serve(const std::function<bool()>& ready, double seconds, const std::string& doing) {
  return service_->serve(ready, seconds, doing);
}

void Calls::close() {
  service_->close();
}

bool Calls::has_threads() const {
  return service_->has_threads();
}

bool Calls::can_have_threads() {
  return settled(Progress::automatic) == Progress::thread;
}

int Calls::rank() const {
  return service_->rank();
}

int Calls::size() const {
  return service_->size();
}

std::int64_t Calls::looks() const {
  return service_->looks();
}

bool Calls::is_asleep() const {
  return service_->is_asleep();
}

}  // namespace meshwork

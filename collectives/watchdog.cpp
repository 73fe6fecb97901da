#include "collectives/watchdog.h"

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/failure_patience.h"
#include "collectives/hosted.h"
#include "collectives/last_words.h"
#include "collectives/rank_names.h"
#include "collectives/side_channel.h"
#include "collectives/stop_signals.h"
#include "collectives/thread_without_signals.h"

namespace meshwork {

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr std::size_t shown = 6;             // collectives that are listed
constexpr Seconds longest_tick{0.25};        // between two looks
constexpr Seconds gathering{2};              // from the first complaint to the verdict
constexpr Seconds fresh{1.5};                // a report that is older is withdrawn
constexpr Seconds patience{15};              // for rank 0's verdict
constexpr Seconds mercy{5};                  // for a rank that SIGTERM finds inside a collective
constexpr Seconds last_words{0.5};           // the same, before it says where it is
constexpr int terminated_status = 128 + 15;  // as a shell says that SIGTERM ended it

/// Where a thread of a stuck rank is, as it tells rank 0.
struct Report {
  std::size_t thread = 0;  // an index into the watched ones
  std::uint64_t position = 0;
  double seconds = 0;  // since its position changed
  std::string doing;
  std::vector<std::string> last;  // collectives, the latest first

  [[nodiscard]] std::string text(int rank) const {
    std::string lines =
        fmt::format("{} {} {} {:.1f}\n{}\n", rank, thread, position, seconds, doing);
    for (const std::string& label : last) lines += label + "\n";
    return lines;
  }
};

struct ReceivedReport {
  Report report;
  Clock::time_point at;
};

/// The rank and what it reports; rank -1 for a text that is none.
std::pair<int, Report> report_from(const std::string& text) {
  std::istringstream lines(text);
  int rank = -1;
  Report report;
  std::string line;
  lines >> rank >> report.thread >> report.position >> report.seconds;
  if (!lines || !std::getline(lines, line) || !std::getline(lines, report.doing)) return {-1, {}};
  while (std::getline(lines, line)) report.last.push_back(line);
  return {rank, report};
}

/// "57: all_reduce ..., 56: ..." of a report.
std::string listed(const Report& report, const char* separator) {
  std::string text;
  std::uint64_t number = sequence_of(report.position);
  for (const std::string& label : report.last) {
    text += fmt::format("{}{}: {}", separator, number--, label);
  }
  return text;
}

/// "rank 3 (node7)", "ranks 1 (node1), 2 (node1) and 5 others".
std::string named(const std::vector<int>& ranks, const std::vector<std::string>& hosts) {
  constexpr std::size_t most = 6;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(most, ranks.size()); ++i) {
    const std::size_t rank = static_cast<std::size_t>(ranks[i]);
    text += fmt::format("{}{} ({})", i > 0 ? ", " : "", name_of_rank(ranks[i]), hosts[rank]);
  }
  if (ranks.size() > most) text += fmt::format(" and {} others", ranks.size() - most);
  return text;
}

/// What is known of one of the threads that are watched: on this rank, and on rank 0 of all.
struct Watched {
  CollectiveTrace* trace;
  std::uint64_t position = 0;
  Clock::time_point changed;
  bool told = false;  // what it waits in
  // On rank 0.
  std::map<int, ReceivedReport> reports;
  std::optional<Clock::time_point> complained;
};

std::string processor_name() {
  std::array<char, MPI_MAX_PROCESSOR_NAME + 1> host{};
  int length = 0;
  check_mpi(MPI_Get_processor_name(host.data(), &length), "MPI_Get_processor_name");
  return {host.data(), static_cast<std::size_t>(length)};
}

}  // namespace

class Watchdog::Watcher {
 public:
  Watcher(const Communicator& ranks, double seconds, std::vector<CollectiveTrace*> traces)
      : limit_(seconds > 0 ? seconds : std::numeric_limits<double>::infinity()),
        tick_(std::min(longest_tick, Seconds(limit_ / 8))),
        rank_(ranks.rank()),
        size_(ranks.size()),
        host_(processor_name()),
        hosts_(gather_texts(ranks, host_)),
        channel_(ranks) {
    for (CollectiveTrace* trace : traces) threads_.push_back({.trace = trace});
    thread_ = thread_without_signals([this] { watch(); });
  }

  ~Watcher() {
    {
      const std::scoped_lock lock(mutex_);
      over_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

 private:
  void watch() {
    for (Watched& thread : threads_) {
      thread.position = thread.trace->position();
      thread.changed = Clock::now();
    }
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, tick_, [this] { return over_; })) look();
  }

  void look() {
    const Clock::time_point now = Clock::now();
    for (Watched& thread : threads_) look_at(thread, now);
    if (rank_ == 0) {
      take_reports(now);
      for (Watched& thread : threads_) judge(thread, now);
    }
  }

  void look_at(Watched& thread, Clock::time_point now) {
    if (const std::uint64_t position = thread.trace->position(); position != thread.position) {
      longest_wait_ = std::max<Seconds>(longest_wait_, now - thread.changed);
      thread.position = position;
      thread.changed = now;
      thread.told = false;
    }
    const Seconds still = now - thread.changed;
    look_at_signals(thread, now, still);
    if (still.count() < limit_) return;
    // The thread beside is not always there.
    const bool there =
        &thread == threads_.data() || is_inside(thread.position) || !thread.trace->doing().empty();
    if (!there) return;
    const Report report = own_report(thread, still);
    if (is_inside(thread.position) && !thread.told) {
      thread.told = true;
      print_symptom(fmt::format("has waited {:.1f} s in collective {}; the last collectives:{}",
                                report.seconds, sequence_of(thread.position),
                                listed(report, "\n  ")));
    }
    if (rank_ == 0) {
      thread.reports[0] = {report, now};
      return;
    }
    channel_.send(report.text(rank_));
    if (is_inside(thread.position) && still.count() > limit_ + patience.count()) {
      end(hang_status, fmt::format("waited {:.0f} s in collective {}, {}; rank {} does not "
                                   "answer, so the rank that does not come is not known",
                                   still.count(), sequence_of(thread.position),
                                   report.last.empty() ? "?" : report.last[0], name_of_rank(0)));
    }
  }

  void look_at_signals(const Watched& thread, Clock::time_point now, Seconds still) {
    if (received_stop_signal() != StopSignal::terminate) return;
    if (!terminated_) {
      terminated_ = now;
      static_cast<void>(print_missing());
    }
    if (!is_inside(thread.position)) return;
    const Seconds waited = std::min<Seconds>(still, now - *terminated_);
    const auto where = [&] {
      const std::vector<std::string> last = thread.trace->last(thread.position, 1);
      return fmt::format("collective {}, {}", sequence_of(thread.position),
                         last.empty() ? "?" : last[0]);
    };
    if (waited >= last_words && !said_where_) {
      said_where_ = true;
      print_symptom(fmt::format("SIGTERM came while it waits in {}", where()));
    }
    // A rank that is merely slow is waited for: it has been as slow before.
    if (waited >= std::max<Seconds>(mercy, 3 * longest_wait_)) {
      end(terminated_status,
          fmt::format("ended by SIGTERM: it has waited {:.1f} s in {}, so that it cannot stop in "
                      "order; a rank has died, or hangs",
                      still.count(), where()));
    }
  }

  [[nodiscard]] Report own_report(const Watched& thread, Seconds still) const {
    return {static_cast<std::size_t>(&thread - threads_.data()), thread.position, still.count(),
            thread.trace->doing(), thread.trace->last(thread.position, shown)};
  }

  /// Rank 0: takes what has arrived.
  void take_reports(Clock::time_point now) {
    while (const std::optional<std::string> text = channel_.receive()) {
      auto [rank, report] = report_from(*text);
      if (rank > 0 && rank < size_ && report.thread < threads_.size()) {
        threads_[report.thread].reports[rank] = {std::move(report), now};
      }
    }
  }

  /// Rank 0: ends the job once it is clear that ranks wait in vain.
  void judge(Watched& thread, Clock::time_point now) {
    const Seconds age = std::max<Seconds>(fresh, 4 * tick_);
    std::erase_if(thread.reports, [&](const auto& one) { return now - one.second.at > age; });
    std::uint64_t front = 0;
    for (const auto& [rank, received] : thread.reports) {
      if (is_inside(received.report.position)) {
        front = std::max(front, received.report.position);
      }
    }
    if (front == 0) {
      thread.complained.reset();
      return;
    }
    if (!thread.complained) thread.complained = now;
    if (now - *thread.complained >= gathering) end(hang_status, verdict(thread, front));
  }

  [[nodiscard]] std::string verdict(const Watched& thread, std::uint64_t front) const {
    const std::map<int, ReceivedReport>& reports = thread.reports;
    std::vector<int> waiting;
    std::uint64_t lowest = front;
    const Report* complaint = nullptr;
    double longest = 0;
    for (const auto& [rank, received] : reports) {
      lowest = std::min(lowest, received.report.position);
      if (received.report.position != front) continue;
      waiting.push_back(rank);
      complaint = &received.report;
      longest = std::max(longest, received.report.seconds);
    }
    std::vector<int> behind;
    std::vector<int> silent;
    const Report* example = nullptr;
    for (int rank = 0; rank < size_; ++rank) {
      const auto found = reports.find(rank);
      if (found == reports.end()) {
        silent.push_back(rank);
      } else if (found->second.report.position == lowest && lowest < front) {
        behind.push_back(rank);
        if (example == nullptr) example = &found->second.report;
      }
    }
    std::string text = fmt::format("watchdog: {} waited {:.1f} s in collective {}, {}",
                                   named(waiting, hosts_), longest, sequence_of(front),
                                   complaint->last.empty() ? "?" : complaint->last[0]);
    if (!behind.empty()) {
      text +=
          fmt::format("\n  {} {} not come to it: {} collective {}{}{}", named(behind, hosts_),
                      behind.size() == 1 ? "has" : "have",
                      is_inside(lowest) ? "still inside" : "for as long as that behind",
                      sequence_of(lowest), example->doing.empty() ? "" : ", in ", example->doing);
      text += fmt::format("\n  the last collectives of rank {}:{}", name_of_rank(behind.front()),
                          listed(*example, "\n    "));
    }
    if (!silent.empty()) {
      text += fmt::format("\n  not heard of, so {}: {}",
                          behind.empty() ? "stopped, unreachable, or the last to come"
                                         : "on the way, stopped or unreachable",
                          named(silent, hosts_));
      text += elsewhere(thread, silent);
    }
    if (behind.empty() && silent.empty()) {
      text += "\n  all ranks have come to it: the network or MPI does not go on";
    }
    return text;
  }

  /// What the first of `ranks` of which that is known does in the thread that is not `thread`.
  [[nodiscard]] std::string elsewhere(const Watched& thread, const std::vector<int>& ranks) const {
    for (const Watched& other : threads_) {
      for (const int rank : ranks) {
        const auto found = other.reports.find(rank);
        if (&other == &thread || found == other.reports.end()) continue;
        const Report& report = found->second.report;
        return fmt::format("\n  another thread of {} has been {} collective {}{}{} for {:.1f} s",
                           named({rank}, hosts_), is_inside(report.position) ? "inside" : "behind",
                           sequence_of(report.position), report.doing.empty() ? "" : ", in ",
                           report.doing, report.seconds);
      }
    }
    return "";
  }

  /// Where nobody has said why the job ends.
  void print_symptom(const std::string& message) const {
    if (!print_missing() && !LastWords::are_said()) print(message);
  }

  /// Says which ranks are gone, which is then why the job ends. Whether any is.
  [[nodiscard]] bool print_missing() const {
    const std::string missing = LastWords::missing();
    if (missing.empty()) return false;
    if (LastWords::claim()) print(missing);
    return true;
  }

  /// One write, so that the lines of several ranks stay whole; without the stream's lock, which the
  /// thread that hangs may hold.
  void print(const std::string& message) const {
    if (const Hosted* const hosted = Hosted::current(); hosted != nullptr && !hosted->prints()) {
      return;
    }
    const std::string line = fmt::format("rank {} ({}): {}\n", name_of_rank(rank_), host_, message);
    for (std::size_t at = 0; at < line.size();) {
      const ssize_t written = ::write(STDERR_FILENO, line.data() + at, line.size() - at);
      if (written <= 0) return;
      at += static_cast<std::size_t>(written);
    }
  }

  void end(int status, const std::string& message) {
    if (Hosted* const hosted = Hosted::current()) {
      hosted->fail_here(message);
      over_ = true;  // who calls this holds the mutex
      return;
    }
    if (LastWords::claim()) print(message);
    // MPI may hang as well.
    std::thread([status] {
      std::this_thread::sleep_for(std::chrono::seconds(3));
      ::_exit(status);
    }).detach();
    MPI_Abort(MPI_COMM_WORLD, status);
    ::_exit(status);
  }

  double limit_;  // seconds
  WatchdogLimit known_limit_{limit_};
  Seconds tick_;
  int rank_;
  int size_;
  std::string host_;
  std::vector<std::string> hosts_;  // of all ranks, on rank 0
  SideChannel channel_;

  // The watcher's own.
  std::vector<Watched> threads_;
  Seconds longest_wait_{0};  // at one position, that ended
  std::optional<Clock::time_point> terminated_;
  bool said_where_ = false;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool over_ = false;
  std::thread thread_;
};

Watchdog::Watchdog(const Communicator& ranks, const WatchdogOptions& options) {
  if (!(options.seconds >= 0)) {
    fail("watchdog_seconds must be at least 0, found {}", options.seconds);
  }
  if (ranks.size() > 1) {
    watcher_ = std::make_unique<Watcher>(ranks, options.seconds, std::vector{&trace_, &beside_});
  }
}

Watchdog::~Watchdog() = default;

void Watchdog::stop() {
  watcher_.reset();
}

}  // namespace meshwork

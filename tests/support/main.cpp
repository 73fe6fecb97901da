// The `main` of tests that run on several ranks: every rank runs every test case, and a failure on
// one is a failure on all.
//
//   mpirun -n 8 test_collectives_ranks --ranks 2 transport,shared --ranks 8 transport
//
// runs the test cases of transport.cpp and shared.cpp on the first two ranks, then those of
// transport.cpp on all eight. Ranks that have no part in a job sleep. Without --ranks, all ranks run
// what Catch2's own arguments select. With MESHWORK_TEST_QUICK in the environment, jobs of three ranks
// alone run: an uneven number finds most mistakes.
//
// Rank 0 reports as Catch2 does. The other ranks write into memory, and what they wrote is shown,
// with their number before each line, only if something failed on them. After each test case the
// ranks tell each other whether it failed. A rank whose test case failed may have left the others
// inside a collective that it no longer joins; they would wait for ever. So the telling has a
// deadline, and the rank that misses the others ends the job with its report.
#define CATCH_CONFIG_EXTERNAL_INTERFACES  // 2.x: the listener's base class

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/error.h"
#include "tests/support/catch.h"
#include "tests/support/session.h"

namespace meshwork::test {

namespace {

// A rank that failed was probably expected inside a collective; one that did not may be waiting for
// a rank that is merely slow.
constexpr std::chrono::seconds patience_after_failure{10};
constexpr std::chrono::seconds patience{90};

/// Each line of `text` behind "rank R| ".
std::string with_rank(int rank, const std::string& text) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    result += fmt::format("rank {}| {}\n", rank, line);
  }
  return result;
}

/// The ranks of this run, and what this one has written.
class Ranks {
 public:
  Ranks() : communicator_(Communicator::world().duplicate()) {
    if (rank() != 0) std::cout.rdbuf(written_.rdbuf());
  }
  ~Ranks() { std::cout.rdbuf(original_); }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  [[nodiscard]] int rank() const { return communicator_.rank(); }
  [[nodiscard]] int size() const { return communicator_.size(); }

  /// Shows what this rank has written so far, at once.
  void show_own() {
    std::cout.flush();
    if (rank() == 0) return;
    const std::string text = with_rank(rank(), written_.str());
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
    written_.str("");
  }

  /// The ranks tell each other whether `test` failed on them. Throws nothing: it ends the job when
  /// not all come, or when they come from different test cases.
  void tell(const std::string& test, bool failed) {
    const std::array<std::int64_t, 2> mine{
        failed ? 1 : 0, static_cast<std::int64_t>(std::hash<std::string>{}(test))};
    std::vector<std::int64_t> all(2 * static_cast<std::size_t>(communicator_.size()));
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Iallgather(mine.data(), 2, MPI_INT64_T, all.data(), 2, MPI_INT64_T,
                             communicator_.native(), &request),
              "MPI_Iallgather");
    const auto start = std::chrono::steady_clock::now();
    const auto limit = failed ? patience_after_failure : patience;
    for (int done = 0; done == 0;) {
      check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      if (done != 0) break;
      if (std::chrono::steady_clock::now() - start > limit) {
        show_own();
        abort_job(1, fmt::format("\"{}\" {} on this rank, and other ranks have not ended it {} s "
                                 "later: they wait in a collective that not all ranks call",
                                 test, failed ? "failed" : "passed", limit.count()));
      }
      ::usleep(200);
    }
    std::string failing;
    for (int other = 0; other < communicator_.size(); ++other) {
      const std::size_t at = 2 * static_cast<std::size_t>(other);
      if (all[at + 1] != mine[1]) {
        show_own();
        abort_job(1, fmt::format("rank {} ended another test case when this one ended \"{}\"",
                                 other, test));
      }
      if (all[at] != 0) failing += fmt::format(" {}", other);
    }
    if (!failing.empty() && rank() == 0) {
      std::cout << fmt::format("\"{}\" failed on rank{}{}\n", test, failing.size() > 2 ? "s" : "",
                               failing)
                << std::flush;
    }
  }

  /// Ends the run: rank 0 shows what failing ranks wrote. Returns 0 if all passed,
  /// else 1.
  int conclude(int status) {
    constexpr int tag = 0;
    MPI_Comm native = communicator_.native();
    const std::string text = status == 0 ? std::string() : with_rank(rank(), written_.str());
    if (rank() != 0) {
      check_mpi(MPI_Send(text.data(), static_cast<int>(text.size()), MPI_CHAR, 0, tag, native),
                "MPI_Send");
    } else {
      for (int other = 1; other < communicator_.size(); ++other) {
        MPI_Status message;
        int length = 0;
        check_mpi(MPI_Probe(other, tag, native, &message), "MPI_Probe");
        check_mpi(MPI_Get_count(&message, MPI_CHAR, &length), "MPI_Get_count");
        std::string theirs(static_cast<std::size_t>(length), ' ');
        check_mpi(MPI_Recv(theirs.data(), length, MPI_CHAR, other, tag, native, MPI_STATUS_IGNORE),
                  "MPI_Recv");
        std::cout << theirs << std::flush;
      }
    }
    const int failed = status == 0 ? 0 : 1;
    int any_failed = failed;
    check_mpi(MPI_Allreduce(&failed, &any_failed, 1, MPI_INT, MPI_MAX, native), "MPI_Allreduce");
    return any_failed;
  }

 private:
  Communicator communicator_;
  std::ostringstream written_;
  std::streambuf* original_ = std::cout.rdbuf();
};

Ranks* ranks = nullptr;  // Catch2 makes the listener itself and hands it nothing

#if MESHWORK_CATCH_VERSION >= 3
using ListenerBase = Catch::EventListenerBase;
std::string name_of(const Catch::TestCaseStats& stats) {
  return stats.testInfo->name;
}
#else
using ListenerBase = Catch::TestEventListenerBase;
std::string name_of(const Catch::TestCaseStats& stats) {
  return stats.testInfo.name;
}
#endif

class TellOtherRanks : public ListenerBase {
 public:
  using ListenerBase::ListenerBase;

#if MESHWORK_CATCH_VERSION >= 3
  void assertionEnded(const Catch::AssertionStats& stats) override {
    note_crash(stats);
  }
#else
  bool assertionEnded(const Catch::AssertionStats& stats) override {
    note_crash(stats);
    return true;
  }
#endif

  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    // A signal ends this process, and so the job, when its handler returns: nothing to tell. The
    // ranks that MPI ends with SIGTERM have nothing to show either.
    if (crashed_) {
      if (!terminated_) ranks->show_own();
      return;
    }
    ranks->tell(name_of(stats), stats.totals.testCases.failed > 0);
  }

 private:
  void note_crash(const Catch::AssertionStats& stats) {
    if (stats.assertionResult.getResultType() == Catch::ResultWas::FatalErrorCondition) {
      crashed_ = true;
      const std::string message(stats.assertionResult.getMessage());
      terminated_ = message.find("SIGTERM") != std::string::npos;
    }
  }

  bool crashed_ = false;
  bool terminated_ = false;
};

/// Test cases, and the ranks to run them on.
struct Job {
  int ranks = 0;
  std::string files;  // separated by commas
};

/// Takes the jobs off the front of the command line.
std::vector<Job> jobs_of(int& argc, char** argv) {
  std::vector<Job> jobs;
  int next = 1;
  for (; next + 2 < argc && std::string_view(argv[next]) == "--ranks"; next += 3) {
    jobs.push_back({std::atoi(argv[next + 1]), argv[next + 2]});
  }
  std::copy(argv + next, argv + argc, argv + 1);
  argc -= next - 1;
  return jobs;
}

/// Runs on the ranks of `Communicator::world()`.
int run_on_all(int argc, char** argv, const std::string& files) {
  Ranks all;
  ranks = &all;
  const int status = run_session(argc, argv, files, fmt::format("_{}", all.size()));
  return all.conclude(status);
}

/// Sleeps until all ranks of `world` have come here.
void sleep_until_all_come(const Communicator& world) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(world.native(), &request), "MPI_Ibarrier");
  for (int done = 0; done == 0;) {
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done == 0) ::usleep(5000);
  }
}

int run(const std::vector<Job>& jobs, int argc, char** argv) {
  const Communicator world = Communicator::world().duplicate();
  const bool quick = std::getenv("MESHWORK_TEST_QUICK") != nullptr;
  int failed = 0;
  for (const auto& [count, files] : jobs) {
    if (quick && count != 3) continue;
    if (count < 1 || count > world.size()) {
      fail("--ranks {} is asked for on {} ranks", count, world.size());
    }
    const bool takes_part = world.rank() < count;
    const Communicator part = world.split(takes_part ? 0 : 1, world.rank());
    if (takes_part) {
      const JobWithin job(part);
      if (world.rank() == 0) std::cout << fmt::format("On {} ranks:\n", count) << std::flush;
      failed |= run_on_all(argc, argv, files);
    }
    sleep_until_all_come(world);
  }
  return failed;
}

}  // namespace

CATCH_REGISTER_LISTENER(TellOtherRanks)

}  // namespace meshwork::test

int main(int argc, char** argv) {
  using namespace meshwork;
  MpiEnvironment environment(&argc, &argv);
  try {
    const std::vector<test::Job> jobs = test::jobs_of(argc, argv);
    const int status =
        jobs.empty() ? test::run_on_all(argc, argv, "") : test::run(jobs, argc, argv);
    test::release_all();
    return status;
  } catch (const std::exception& error) {
    abort_job(1, error.what());
  }
}

// How a process ends in which the HDF5 library crashes, or does not come back.
#include "runtime/data/hdf5_handles.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <ctime>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/catch.h"

namespace meshwork::hdf5_handles_test {

namespace {

struct Ended {
  int status;
  std::string said;
};

// What a process that does `action` says on standard error, and how it ends.
Ended ended_by(const std::function<void()>& action) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // Catch has handlers of its own.
    for (const int number : {SIGSEGV, SIGABRT}) std::signal(number, SIG_DFL);
    ::dup2(ends[1], STDERR_FILENO);
    end_crashes_of_hdf5_with(2);
    action();
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string said;
  char letter = 0;
  while (::read(ends[0], &letter, 1) == 1) said += letter;
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return {status, said};
}

}  // namespace

TEST_CASE("a crash while HDF5 reads ends with one message that names the file") {
  for (const auto& [number, text] : {std::pair{SIGSEGV, "11"}, std::pair{SIGABRT, "6"}}) {
    const Ended ended = ended_by([&, number = number] {
      const Hdf5Guard guard;
      reading_hdf5("other.h5");
      const Hdf5Guard inner;
      reading_hdf5("data.h5");
      ::raise(number);
    });
    CHECK(WIFEXITED(ended.status));
    CHECK(WEXITSTATUS(ended.status) == 2);
    CHECK(ended.said ==
          std::string("data.h5: the HDF5 library crashed while it read this file (signal ") + text +
              "); it is damaged, or made to do that\n");
  }
}

TEST_CASE("other crashes end as they did before") {
  const std::vector<std::function<void()>> others{[] { ::raise(SIGSEGV); },
                                                  [] {
                                                    {
                                                      const Hdf5Guard guard;
                                                      reading_hdf5("data.h5");
                                                    }
                                                    ::raise(SIGSEGV);
                                                  },
                                                  [] {
                                                    {
                                                      const Hdf5Guard guard;
                                                      reading_hdf5("data.h5");
                                                    }
                                                    const Hdf5Guard writes;
                                                    ::raise(SIGSEGV);
                                                  }};
  for (const auto& action : others) {
    const Ended ended = ended_by(action);
    CHECK(WIFSIGNALED(ended.status));
    CHECK(WTERMSIG(ended.status) == SIGSEGV);
    CHECK(ended.said.empty());
  }
}

namespace {

void compute(std::chrono::milliseconds time) {
  const std::clock_t end =
      std::clock() + static_cast<std::clock_t>(time.count()) * (CLOCKS_PER_SEC / 1000);
  while (std::clock() < end) {
  }
}

void take_memory(std::size_t bytes) {
  auto* memory = new std::vector<char>(bytes, 'x');  // which the process has until it ends
  CHECK(memory->back() == 'x');
  compute(std::chrono::milliseconds(100));
}

}  // namespace

TEST_CASE("a look that does not come back ends with one message that names the file") {
  const Ended ended = ended_by([] {
    const Hdf5Guard guard;
    reading_hdf5("absent.h5");
    for (;;) reading_hdf5("absent.h5");  // in many calls or in one
  });
  CHECK(WIFEXITED(ended.status));
  CHECK(WEXITSTATUS(ended.status) == 2);
  CHECK(ended.said ==
        "absent.h5: the HDF5 library does not come back from reading this file; it is damaged, or "
        "made to do that\n");
}

TEST_CASE("a look that takes more memory than the file has bytes ends with one message") {
  const Ended ended = ended_by([] {
    const Hdf5Guard guard;
    reading_hdf5("absent.h5");
    compute(std::chrono::milliseconds(100));
    take_memory(std::size_t{100} << 20);
  });
  CHECK(WIFEXITED(ended.status));
  CHECK(WEXITSTATUS(ended.status) == 2);
  CHECK(ended.said ==
        "absent.h5: the HDF5 library takes memory for this file that it does not fill; it is "
        "damaged, or made to do that\n");
}

TEST_CASE("values may take memory and time, and so may what is behind a guard or beside it") {
  for (const auto& action : std::vector<std::function<void()>>{
           [] {
             const Hdf5Guard guard;
             reading_hdf5_values("absent.h5");
             take_memory(std::size_t{100} << 20);
             compute(std::chrono::milliseconds(1500));
           },
           [] {
             {
               const Hdf5Guard guard;
               reading_hdf5("absent.h5");
             }
             take_memory(std::size_t{100} << 20);
             compute(std::chrono::milliseconds(1500));
           },
           [] {
             const Hdf5Guard guard;
             reading_hdf5("absent.h5");
             std::thread([] {
               take_memory(std::size_t{32} << 20);
               compute(std::chrono::milliseconds(1500));
             }).join();
           },
       }) {
    const Ended ended = ended_by(action);
    CHECK(ended.said == "");
    CHECK(WIFEXITED(ended.status));
    CHECK(WEXITSTATUS(ended.status) == 0);
  }
}

}  // namespace meshwork::hdf5_handles_test

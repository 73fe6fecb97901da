// Runs a reader on many broken inputs, in processes of their own, and tells how each ended.
//
//     FileFuzzer fuzzer("idx", ".idx");
//     fuzzer.run(count, [&](std::uint64_t number, const fs::path& file) { write it; read it; });
//
// One process takes input after input and notes which it has begun. When it dies, the input that it
// was at is kept as "crash-NAME-NUMBER" in the folder of the test, and the next process goes on
// behind it. A crash whose innermost frames are the HDF5 library's is that library's: it is counted
// apart, since a program ends it with one message (hdf5_handles.h). All else is a failure: signals,
// reports of sanitizers, inputs that take longer than `patience`, and, without sanitizers, more
// memory than `most_bytes`.
#pragma once

#include <dlfcn.h>
#include <execinfo.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/mutate.h"

extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace meshwork::test {

/// How many inputs a test tries: MESHWORK_FUZZ_INPUTS, or `usual`.
inline std::uint64_t fuzz_inputs(std::uint64_t usual) {
  const char* asked = std::getenv("MESHWORK_FUZZ_INPUTS");
  return asked == nullptr ? usual : std::strtoull(asked, nullptr, 10);
}

/// The first of them: MESHWORK_FUZZ_FIRST, to try one again.
inline std::uint64_t first_fuzz_input() {
  const char* asked = std::getenv("MESHWORK_FUZZ_FIRST");
  return asked == nullptr ? 0 : std::strtoull(asked, nullptr, 10);
}

inline std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

inline void put_bytes(const std::filesystem::path& file, std::string_view bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
}

/// `bytes` with one to four changes as disks and people who want to mislead make them.
inline std::string mutated_bytes(Mutator& mutator, std::string bytes) {
  // Numbers that lengths and places in files have when they are wrong.
  static constexpr std::array<std::uint64_t, 12> numbers{
      0,          1,           0x7f,       0xff,       0xffff,     0x7fffffff,
      0xffffffff, 0x100000000, 1ULL << 40, 1ULL << 62, 1ULL << 63, ~0ULL};
  for (std::size_t changes = 1 + mutator.below(4); changes > 0 && !bytes.empty(); --changes) {
    const std::size_t at = mutator.below(bytes.size());
    switch (mutator.below(6)) {
      case 0:
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << mutator.below(8)));
        break;
      case 2:
        bytes[at] = static_cast<char>(mutator.below(256));
        break;
      case 3: {
        const std::uint64_t number = numbers[mutator.below(numbers.size())];
        const std::size_t width = std::size_t{1} << mutator.below(4);
        for (std::size_t i = 0; i < width && at + i < bytes.size(); ++i) {
          bytes[at + i] = static_cast<char>(number >> (8 * i));
        }
        break;
      }
      case 4: {
        const std::size_t from = mutator.below(bytes.size());
        const std::size_t length =
            std::min(1 + mutator.below(16), bytes.size() - std::max(at, from));
        std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(from), length,
                    bytes.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      }
      default:
        if (mutator.below(8) == 0) bytes.resize(at);
        break;
    }
  }
  return bytes;
}

class FileFuzzer {
 public:
  static constexpr std::chrono::seconds patience{5};     // of work on an input
  static constexpr std::chrono::seconds standstill{20};  // by the clock: others take the cores too
  static constexpr std::int64_t most_bytes = std::int64_t{512} << 20;

  FileFuzzer(std::string name, std::string suffix)
      : name_(std::move(name)),
        file_(std::filesystem::current_path() / ("input-" + name_ + suffix)),
        progress_(static_cast<Progress*>(::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE,
                                                MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    REQUIRE(progress_ != MAP_FAILED);
    new (progress_) Progress();
  }
  ~FileFuzzer() { ::munmap(progress_, sizeof(Progress)); }
  FileFuzzer(const FileFuzzer&) = delete;
  FileFuzzer& operator=(const FileFuzzer&) = delete;

  /// Inputs 0 to `count`, without the last. `try_input` gets a number and a name for a file and
  /// tells whether the input was read, and not refused; what it throws is a failure.
  void run(std::uint64_t count,
           const std::function<bool(std::uint64_t, const std::filesystem::path&)>& try_input) {
    const std::uint64_t first = first_fuzz_input();
    for (std::uint64_t next = first; next < count;) {
      const pid_t child = ::fork();
      REQUIRE(child >= 0);
      if (child == 0) work(next, count, try_input);
      const int status = wait_for(child);
      next = progress_->begun.load() + 1;
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
      judge(next - 1, status);
    }
    const std::uint64_t read = progress_->read.load();
    WARN(name_ << ": " << count << " inputs, " << read << " read, " << of_hdf5_
               << " crashes inside the HDF5 library");
    if (first > 0) return;
    // Neither way is so rare that nothing was tried.
    CHECK(read > count / 100);
    CHECK(read < count - count / 100);
  }

 private:
  static constexpr int inside_hdf5 = 90, too_much_memory = 93;
  struct Progress {
    std::atomic<std::uint64_t> begun{0};
    std::atomic<std::uint64_t> read{0};
  };

  // Whether the frames below a crash or a report begin, but for those of the system, in libhdf5.
  static bool is_inside_hdf5() {
    std::array<void*, 64> frames{};
    const int count = ::backtrace(frames.data(), static_cast<int>(frames.size()));
    for (int i = 0; i < count; ++i) {
      Dl_info info{};
      if (::dladdr(frames[static_cast<std::size_t>(i)], &info) == 0 || info.dli_fname == nullptr) {
        continue;
      }
      const std::string_view module(info.dli_fname);
      if (module.find("libhdf5") != std::string_view::npos) return true;
      if (info.dli_sname != nullptr &&
          std::string_view(info.dli_sname).find("meshwork") != std::string_view::npos &&
          std::string_view(info.dli_sname).find("FileFuzzer") == std::string_view::npos) {
        return false;
      }
    }
    return false;
  }
  static void on_crash(int number) {
    if (is_inside_hdf5()) ::_exit(inside_hdf5);
    ::signal(number, SIG_DFL);
    ::raise(number);
  }
  static void on_report() {
    if (is_inside_hdf5()) ::_exit(inside_hdf5);
  }

  [[noreturn]] void work(
      std::uint64_t next, std::uint64_t count,
      const std::function<bool(std::uint64_t, const std::filesystem::path&)>& try_input) {
    const std::int64_t memory_at_start = memory_used();
    // A sanitizer writes an eighth of what is allocated, though nobody else writes any of it.
    const bool sanitized = __sanitizer_set_death_callback != nullptr;
    (void)is_inside_hdf5();  // which loads what it needs
    if (sanitized) __sanitizer_set_death_callback(on_report);
    for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT}) ::signal(number, on_crash);
    try {
      for (; next < count; ++next) {
        progress_->begun.store(next);
        progress_->read += try_input(next, file_) ? 1 : 0;
        if (!sanitized && memory_used() > most_bytes + memory_at_start) ::_exit(too_much_memory);
      }
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s, input %llu: %s\n", name_.c_str(),
                   static_cast<unsigned long long>(next), error.what());
      ::_exit(91);
    } catch (...) {  // of Catch, which has said it
      ::_exit(92);
    }
    ::_exit(0);
  }

  // The time that the process has had a processor.
  static std::chrono::nanoseconds work_of(pid_t process) {
    clockid_t clock{};
    timespec time{};
    if (::clock_getcpuclockid(process, &clock) != 0 || ::clock_gettime(clock, &time) != 0)
      return {};
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  }

  int wait_for(pid_t child) const {
    std::uint64_t at = ~std::uint64_t{0};
    auto since = std::chrono::steady_clock::now();
    std::chrono::nanoseconds worked_before{};
    for (;;) {
      int status = 0;
      const pid_t ended = ::waitpid(child, &status, WNOHANG);
      REQUIRE(ended >= 0);
      if (ended == child) {
        return status;
      }
      if (progress_->begun.load() != at) {
        at = progress_->begun.load();
        since = std::chrono::steady_clock::now();
        worked_before = work_of(child);
      } else if (work_of(child) - worked_before > patience ||
                 std::chrono::steady_clock::now() - since > standstill) {
        ::kill(child, SIGKILL);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  // The most that this process has used.
  static std::int64_t memory_used() {
    rusage own{};
    ::getrusage(RUSAGE_SELF, &own);
    return own.ru_maxrss * 1024;
  }

  void judge(std::uint64_t number, int status) {
    const std::filesystem::path kept =
        std::filesystem::current_path() /
        ("crash-" + name_ + "-" + std::to_string(number) + file_.extension().string());
    std::filesystem::copy_file(file_, kept, std::filesystem::copy_options::overwrite_existing);
    if (WIFEXITED(status) && WEXITSTATUS(status) == inside_hdf5) {
      ++of_hdf5_;
      return;
    }
    const std::string how =
        WIFSIGNALED(status)
            ? (WTERMSIG(status) == SIGKILL ? "took too long"
                                           : "signal " + std::to_string(WTERMSIG(status)))
        : WEXITSTATUS(status) == too_much_memory ? "took too much memory"
                                                 : "status " + std::to_string(WEXITSTATUS(status));
    FAIL_CHECK(name_ << ", input " << number << ": " << how << "; kept as " << kept.string());
  }

  std::string name_;
  std::filesystem::path file_;
  Progress* progress_;
  int of_hdf5_ = 0;
};

}  // namespace meshwork::test

#include "runtime/data/hdf5_handles.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "collectives/joined_text.h"
#include "collectives/printable.h"

namespace meshwork {

namespace {

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

// Who is inside of the library, and with which file, for a handler of signals, which takes no locks.
std::atomic<int> guards{0};
std::atomic<pthread_t> holder{};
std::array<char, 1024> file_being_read{};

constexpr std::array crashes{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
std::array<struct sigaction, crashes.size()> handlers_before{};
int status_of_crash = 0;

// The bounds of a reading. Its thread's processor time is counted in ticks.
constexpr std::int64_t ticks_of_second = 50;
constexpr std::int64_t seconds_of_look = 1, seconds_of_values = 60;
constexpr std::int64_t bytes_of_second = 256 << 10;  // of the file on the disk
constexpr std::int64_t memory_of_look = 64 << 20;
std::atomic<bool> looks{false};  // and does not read values
std::atomic<std::int64_t> ticks{0};
std::atomic<std::int64_t> memory_at_first_tick{0};

void say(std::string_view text) {
  const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  (void)written;  // there is nobody left to tell
}

bool is_reading() {
  return guards.load() > 0 && file_being_read[0] != '\0';
}

// With one line: the file, and what the library did.
[[noreturn]] void end_reading(std::initializer_list<std::string_view> what) {
  say(file_being_read.data());
  say(": the HDF5 library ");
  for (const std::string_view text : what) say(text);
  say("; it is damaged, or made to do that\n");
  ::_exit(status_of_crash);
}

void on_crash(int number) {
  const bool reading = is_reading() && ::pthread_equal(holder.load(), ::pthread_self()) != 0;
  if (reading) {
    const char digits[] = {static_cast<char>('0' + number / 10),
                           static_cast<char>('0' + number % 10)};
    end_reading({"crashed while it read this file (signal ",
                 number < 10 ? std::string_view(digits + 1, 1) : std::string_view(digits, 2), ")"});
  }
  const auto at = static_cast<std::size_t>(std::ranges::find(crashes, number) - crashes.begin());
  ::sigaction(number, &handlers_before[at], nullptr);
  ::raise(number);
}

// Bytes that the process has in memory, without any lock; 0 where nobody tells.
std::int64_t resident_bytes() {
  const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  std::array<char, 64> text{};
  const ssize_t length = ::read(file, text.data(), text.size() - 1);
  ::close(file);
  const char* const second = length > 0 ? std::strchr(text.data(), ' ') : nullptr;
  return second == nullptr ? 0 : std::atoll(second) * ::sysconf(_SC_PAGESIZE);
}

// Bytes of the file being read that lie on the disk: a hole is nothing to read.
std::int64_t stored_bytes() {
  struct stat status {};
  return ::stat(file_being_read.data(), &status) == 0 ? std::int64_t{status.st_blocks} * 512 : 0;
}

// On the thread whose time was counted.
void on_tick(int) {
  if (!is_reading() || ::pthread_equal(holder.load(), ::pthread_self()) == 0) return;
  const int error = errno;
  const std::int64_t resident = resident_bytes();
  if (++ticks == 1) memory_at_first_tick.store(resident);
  const std::int64_t stored = stored_bytes();
  const std::int64_t seconds =
      (looks.load() ? seconds_of_look : seconds_of_values) + stored / bytes_of_second;
  if (ticks.load() > seconds * ticks_of_second) {
    end_reading({"does not come back from reading this file"});
  }
  // Beside another thread's look the main thread may take memory of its own.
  const bool is_main = ::gettid() == ::getpid();
  if (is_main && looks.load() &&
      resident - memory_at_first_tick.load() > memory_of_look + 2 * stored) {
    end_reading({"takes memory for this file that it does not fill"});
  }
  errno = error;
}

// Ticks while its thread works, from `start` to `stop`.
class Ticker {
 public:
  Ticker() {
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGALRM;
    event._sigev_un._tid = ::gettid();
    exists_ = ::timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer_) == 0;
  }
  ~Ticker() {
    if (exists_) ::timer_delete(timer_);
  }
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

  void start() {
    if (!runs_) every(1'000'000'000 / ticks_of_second);
  }
  void stop() {
    if (runs_) every(0);
  }

 private:
  void every(long nanoseconds) {
    const timespec time{0, nanoseconds};
    const itimerspec times{time, time};
    // Without a timer there are no bounds, as there are none in other programs.
    if (exists_) ::timer_settime(timer_, 0, &times, nullptr);
    runs_ = nanoseconds > 0;
  }

  timer_t timer_{};
  bool exists_ = false;
  bool runs_ = false;
};

Ticker& ticker() {
  thread_local Ticker own;
  return own;
}

// What the library knows of the call that failed.
struct ErrorStack {
  std::vector<std::string> texts;  // outermost first
  std::string refusal;             // the system's words, if it refused something
  bool of_system = false;          // and not for what the library had asked
};

// Takes the system's words, which the library passes on among times and addresses:
// "..., errno = 28, error message = 'No space left on device', buf = ...".
bool take_refusal(ErrorStack& stack, const std::string& text) {
  constexpr std::string_view number_mark = "errno = ";
  constexpr std::string_view words_mark = "error message = '";
  const std::size_t number = text.find(number_mark);
  const std::size_t begin = text.find(words_mark);
  const std::size_t end = begin == std::string::npos ? begin : text.find("',", begin);
  if (number == std::string::npos || end == std::string::npos) {
    return false;
  }
  stack.refusal = text.substr(begin + words_mark.size(), end - begin - words_mark.size());
  // To ask for places that cannot be, a damaged file leads the library.
  const int error = std::atoi(text.c_str() + number + number_mark.size());
  stack.of_system = error != EINVAL && error != EOVERFLOW && error != EFBIG;
  return true;
}

herr_t append_description(unsigned, const H5E_error2_t* entry, void* list) {
  try {
    ErrorStack& stack = *static_cast<ErrorStack*>(list);
    const std::string text = entry->desc == nullptr ? "" : entry->desc;
    if (!take_refusal(stack, text) && !text.empty() &&
        (stack.texts.empty() || stack.texts.back() != text)) {
      stack.texts.push_back(text);
    }
    return 0;
  } catch (...) {
    return -1;  // exceptions do not cross the library
  }
}

ErrorStack error_stack() {
  ErrorStack stack;
  (void)H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, append_description, &stack);
  return stack;
}

// In one line: the system's words alone where there are some.
std::string text_of(const ErrorStack& stack) {
  if (!stack.refusal.empty()) {
    return in_one_line(stack.refusal);
  }
  const std::string line = joined_text(stack.texts, ": ");
  return line.empty() ? "HDF5 gave no reason" : in_one_line(line);
}

}  // namespace

Hdf5Guard::Hdf5Guard() : lock_(library_mutex()) {
  holder.store(::pthread_self());
  if (guards++ == 0) file_being_read[0] = '\0';
  if (H5Eget_auto2(H5E_DEFAULT, &printer_, &printer_data_) < 0 ||
      H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) < 0) {
    internal_error("HDF5 refused to hold back its error messages");
  }
}

Hdf5Guard::~Hdf5Guard() {
  if (guards == 1 && status_of_crash != 0 && is_reading()) ticker().stop();
  --guards;
  H5Eset_auto2(H5E_DEFAULT, printer_, printer_data_);
}

void leave_hdf5_silent() {
  // Outside of a guard, which puts back what was there before.
  const std::lock_guard lock(library_mutex());
  if (H5dont_atexit() < 0 || H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) < 0) {
    internal_error("HDF5 refused to hold back its error messages");
  }
}

void end_crashes_of_hdf5_with(int status) {
  status_of_crash = status;
  // The crash may be one of too deep a recursion.
  static std::array<char, 1 << 16> stack;
  stack_t other{};
  other.ss_sp = stack.data();
  other.ss_size = stack.size();
  ::sigaltstack(&other, nullptr);
  for (std::size_t i = 0; i < crashes.size(); ++i) {
    struct sigaction action {};
    action.sa_handler = on_crash;
    action.sa_flags = SA_ONSTACK | SA_NODEFER;
    if (::sigaction(crashes[i], &action, &handlers_before[i]) != 0) {
      internal_error("a handler of crashes was refused");
    }
  }
  struct sigaction action {};
  action.sa_handler = on_tick;
  action.sa_flags = SA_RESTART;
  if (::sigaction(SIGALRM, &action, nullptr) != 0) {
    internal_error("a handler of alarms was refused");
  }
}

void reading_hdf5(std::string_view file) noexcept {
  std::array<char, file_being_read.size()> name{};
  // A name can come from a file, and goes to a terminal as it stands here.
  std::ranges::transform(file.substr(0, name.size() - 1), name.begin(), [](char c) {
    return static_cast<unsigned char>(c) < ' ' || c == '\x7f' ? '?' : c;
  });
  if (!looks.load() || name != file_being_read) ticks.store(0);
  looks.store(true);
  file_being_read = name;
  if (status_of_crash != 0) ticker().start();
}

void reading_hdf5_values(std::string_view file) noexcept {
  reading_hdf5(file);
  looks.store(false);
  ticks.store(0);
}

std::string hdf5_error_text() {
  return text_of(error_stack());
}

void fail_hdf5(std::string_view what, std::string_view subject, std::string_view suspicion) {
  const ErrorStack stack = error_stack();
  H5Eclear2(H5E_DEFAULT);
  if (stack.of_system) {
    throw SystemFailure(fmt::format("{}: {}: {}", subject, what, text_of(stack)));
  }
  fail("{}: {}{}: {}", subject, what, suspicion, text_of(stack));
}

}  // namespace meshwork

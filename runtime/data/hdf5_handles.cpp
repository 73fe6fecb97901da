#include "runtime/data/hdf5_handles.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace meshwork {

namespace {

std::recursive_mutex& library_mutex() {
#include "collectives/printable.h"

  static std::recursive_mutex mutex;
  return mutex;
}

// Who is inside of the library, and with which file, for a handler of signals, which takes no locks.
std::atomic<int> guards{0};
std::atomic<std::int64_t> readings{0};
std::atomic<pthread_t> holder{};
std::array<char, 1024> file_being_read{};

constexpr std::array crashes{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
std::array<struct sigaction, crashes.size()> handlers_before{};
int status_of_crash = 0;

// A signal asked to stop while the library read, and which reading that was.
constexpr unsigned patience_seconds = 10;
std::atomic<int> signal_waiting{0};
std::atomic<std::int64_t> reading_waited_for{0};

void say(std::string_view text) {
  const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  (void)written;  // there is nobody left to tell
}

bool is_reading() {
  return guards.load() > 0 && file_being_read[0] != '\0';
}

void on_crash(int number) {
  const bool reading = is_reading() && ::pthread_equal(holder.load(), ::pthread_self()) != 0;
  if (reading) {
    const char digits[] = {static_cast<char>('0' + number / 10),
                           static_cast<char>('0' + number % 10)};
    say(file_being_read.data());
    say(": the HDF5 library crashed while it read this file (signal ");
    say({number < 10 ? digits + 1 : digits, number < 10 ? 1U : 2U});
    say("); it is damaged, or made to do that\n");
    ::_exit(status_of_crash);
  }
  const auto at = static_cast<std::size_t>(std::ranges::find(crashes, number) - crashes.begin());
  ::sigaction(number, &handlers_before[at], nullptr);
  ::raise(number);
}

void on_lost_patience(int) {
  if (is_reading() && readings.load() == reading_waited_for.load()) {
    say(file_being_read.data());
    say(": the HDF5 library was asked to stop and does not come back from reading this file; it is "
        "damaged, or made to do that\n");
    ::_exit(128 + signal_waiting.load());
  }
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
  std::string line;
  for (const std::string& text : stack.texts) line += (line.empty() ? "" : ": ") + text;
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
  action.sa_handler = on_lost_patience;
  action.sa_flags = SA_RESTART;
  if (::sigaction(SIGALRM, &action, nullptr) != 0) {
    internal_error("a handler of alarms was refused");
  }
}

void end_late_reading_of_hdf5(int number) noexcept {
  if (status_of_crash != 0 && is_reading()) {
    signal_waiting.store(number);
    reading_waited_for.store(readings.load());
    ::alarm(patience_seconds);
  }
}

void reading_hdf5(std::string_view file) noexcept {
  const std::size_t length = std::min(file.size(), file_being_read.size() - 1);
  // A name can come from a file, and goes to a terminal as it stands here.
  std::ranges::transform(file.substr(0, length), file_being_read.begin(), [](char c) {
    return static_cast<unsigned char>(c) < ' ' || c == '\x7f' ? '?' : c;
  });
  file_being_read[length] = '\0';
  ++readings;
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

#include "runtime/data/hdf5_handles.h"

#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace meshwork {

namespace {

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
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
    return stack.refusal;
  }
  std::string line;
  for (const std::string& text : stack.texts) line += (line.empty() ? "" : ": ") + text;
  return line.empty() ? "HDF5 gave no reason" : line;
}

}  // namespace

Hdf5Guard::Hdf5Guard() : lock_(library_mutex()) {
  if (H5Eget_auto2(H5E_DEFAULT, &printer_, &printer_data_) < 0 ||
      H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) < 0) {
    internal_error("HDF5 refused to hold back its error messages");
  }
}

Hdf5Guard::~Hdf5Guard() {
  H5Eset_auto2(H5E_DEFAULT, printer_, printer_data_);
}

void keep_hdf5_from_printing() {
  // Outside of a guard, which puts back what was there before.
  const std::lock_guard lock(library_mutex());
  if (H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) < 0) {
    internal_error("HDF5 refused to hold back its error messages");
  }
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

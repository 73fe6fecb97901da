// Errors: one exception type, and the check of every MPI return code.
//
// An `Error` is for the world's mistakes: a message that says what was attempted, on what, what was
// expected and found, and what the user can change. It is one line where it can be. An assertion
// (`internal_error`) is for our own mistakes, and stays in release builds.
#pragma once

#include <fmt/format.h>

#include <new>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace meshwork {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What is wrong is the option `option` of a configuration.
class OptionError : public Error {
 public:
  OptionError(std::string option, const std::string& what)
      : Error(what), option_(std::move(option)) {}
  [[nodiscard]] const std::string& option() const { return option_; }

 private:
  std::string option_;
};

/// A file, or a folder, that is to be read is not there.
class MissingFile : public Error {
 public:
  using Error::Error;
};

/// What is wrong is a variable of the environment, which the text names.
class EnvironmentError : public Error {
 public:
  using Error::Error;
};

/// A rank that others wait for is gone, or is in another collective: the job is over, and it is no
/// fault of what was being done.
class RanksParted : public Error {
 public:
  using Error::Error;
};

namespace error_detail {
// No template, so each call of `fail` compiles to little.
[[noreturn]] void fail_with(fmt::string_view format, fmt::format_args arguments);
}  // namespace error_detail

/// Throws an `Error` with a formatted message.
template <class... Arguments>
[[noreturn]] void fail(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  error_detail::fail_with(format, fmt::make_format_args(arguments...));
}

/// Throws the exception that is being handled again as an `Error` that says first from where it comes;
/// `RanksParted` stays that.
[[noreturn]] void rethrow_from(std::string_view where);

/// What `error` says; memory that cannot be had, in words.
[[nodiscard]] std::string message_of(const std::exception& error);

/// What `action` gives. Throws an `Error` that names `what` if there is not enough memory for it.
template <class Action>
decltype(auto) with_memory_for(std::string_view what, Action&& action) {
  try {
    return std::forward<Action>(action)();
  } catch (const std::bad_alloc&) {
    fail("{}: there is not enough memory", what);
  } catch (const std::length_error&) {  // more elements than a container could ever have
    fail("{}: there is not enough memory", what);
  }
}

/// Throws an `Error` that asks for a report: an invariant of Meshwork itself does not hold.
[[noreturn]] void internal_error(std::string_view what,
                                 std::source_location where = std::source_location::current());

/// Throws an `Error` naming `operation`, MPI's own words and the caller unless `code` is
/// MPI_SUCCESS.
void check_mpi(int code, std::string_view operation,
               std::source_location where = std::source_location::current());

}  // namespace meshwork

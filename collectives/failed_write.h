// FailedWrite: a file could not be written, as on a full disk.
//
// It is a failure of the run, which may pass: the program ends with 1. A file that can never be
// written where it was asked for is a mistake (WrongInput): the program ends with 2. Most are found
// before anything is computed (runtime/checkpoint/output_place.h).
#pragma once

#include <cerrno>
#include <string>
#include <utility>

#include "collectives/error.h"
#include "collectives/wrong_input.h"

namespace meshwork {

class FailedWrite : public Error {
 public:
  using Error::Error;
};

/// Throws `text` about a file or directory that could not be made: a `WrongInput` where `reason`, an
/// errno, says that the system will never make it, as below /proc, and else a `FailedWrite`.
[[noreturn]] inline void fail_to_make(int reason, const std::string& text) {
  switch (reason) {
    case EACCES:
    case EEXIST:
    case EINVAL:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case ENOENT:
    case ENOTDIR:
    case EPERM:
    case EROFS:
      throw WrongInput(text);
    default:
      throw FailedWrite(text);
  }
}

/// What `action` gives. An `Error` that it throws is thrown as a `FailedWrite`.
template <class Action>
decltype(auto) writing(Action&& action) {
  try {
    return std::forward<Action>(action)();
  } catch (const RanksParted&) {
    throw;
  } catch (const Error& error) {
    throw FailedWrite(error.what());
  }
}

}  // namespace meshwork

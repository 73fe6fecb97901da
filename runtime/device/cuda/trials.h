// The verdicts of a device on the kernels of its libraries (trial.h).
//
// A verdict is kept, since a specification is compiled for many programs. Where there is no memory to
// try a kernel in, there is none: whoever asks says what holds then, and the next who asks has it
// tried again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "collectives/error.h"

namespace meshwork::cuda {

/// There is no memory to try a kernel in.
class NoTrialMemory : public Error {
 public:
  using Error::Error;
};

class Trials {
 public:
  /// Whether a kernel is taken that could not be tried: one that only has to run, since the library
  /// vouches for it and the program may have the memory; not one of which more has to be shown.
  enum class Untried : std::uint8_t { taken, left };

  /// Whether `candidate` of the kernel `name` stands. `try_it` gives a refusal, or throws
  /// `NoTrialMemory`; it is called until there is a verdict for `name` and `key`.
  [[nodiscard]] bool stands(const std::string& name, std::string_view candidate,
                            std::string_view key, Untried untried,
                            const std::function<std::string()>& try_it);
  /// Notes that no library's kernel stands for what was asked, and what is taken.
  void note_last_resort(const std::string& name, std::string_view taken);

  /// What people should know, a line each; empty if every library's kernel stood its trial.
  [[nodiscard]] std::string remark() const;

 private:
  std::map<std::string, bool> verdicts_;
  std::map<std::string, std::string> last_resorts_;  // what is taken, by what was asked for
  std::map<std::string, std::string> left_untried_;  // why, by what was asked for
  std::int64_t refused_ = 0;
  std::string first_;  // refusal
};

}  // namespace meshwork::cuda

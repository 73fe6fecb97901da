// The text that tokens stand for: the bytes of a model of 256 tokens, else their numbers, with
// spaces between.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/train/loop/generation.h"

namespace meshwork {

/// The tokens of `text`, one at least. Throws `Error` for what is no number, and as `check_prompt`
/// does.
[[nodiscard]] std::vector<std::int32_t> tokens_of_text(const std::string& text,
                                                       const TokenModel& of);

/// Text of tokens as they come, fit for a terminal (`printable`). Bytes of a character wait for the
/// rest of it.
class TokenText {
 public:
  explicit TokenText(const TokenModel& of);

  /// What `token` adds to the text.
  [[nodiscard]] std::string add(std::int32_t token);
  /// What has waited.
  [[nodiscard]] std::string end();

 private:
  bool bytes_;
  bool first_ = true;
  std::string pending_;
};

}  // namespace meshwork

#include "runtime/train/loop/token_text.h"

#include <charconv>
#include <sstream>
#include <system_error>

#include "collectives/error.h"
#include "collectives/printable.h"

namespace meshwork {
namespace {

constexpr std::int64_t byte_classes = 256;

std::vector<std::int32_t> numbers_in(const std::string& text, const TokenModel& of) {
  std::vector<std::int32_t> tokens;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    std::int32_t token = 0;
    const auto [end, wrong] = std::from_chars(word.data(), word.data() + word.size(), token);
    if (wrong != std::errc() || end != word.data() + word.size()) {
      fail(
          "the model has {} tokens, so a prompt is token numbers with spaces between them; found "
          "\"{}\"",
          of.classes, in_one_line(word));
    }
    tokens.push_back(token);
  }
  return tokens;
}

}  // namespace

std::vector<std::int32_t> tokens_of_text(const std::string& text, const TokenModel& of) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
  std::vector<std::int32_t> tokens = of.classes == byte_classes
                                         ? std::vector<std::int32_t>{bytes, bytes + text.size()}
                                         : numbers_in(text, of);
  check_prompt(tokens, of);
  return tokens;
}

TokenText::TokenText(const TokenModel& of) : bytes_(of.classes == byte_classes) {}

std::string TokenText::add(std::int32_t token) {
  if (!bytes_) {
    const bool first = first_;
    first_ = false;
    return fmt::format("{}{}", first ? "" : " ", token);
  }
  pending_ += static_cast<char>(token);
  constexpr std::size_t longest_character = 4;
  if (character_length(pending_) == 0 && pending_.size() < longest_character &&
      (token & 0x80) != 0) {
    return "";
  }
  return end();
}

std::string TokenText::end() {
  std::string text = printable(pending_);
  pending_.clear();
  return text;
}

}  // namespace meshwork

#include "collectives/printable.h"

#include <fmt/format.h>

#include <cstddef>

namespace meshwork {
namespace {

bool is_control(std::string_view character) {
  if (character.size() == 1) return character < "\x20" || character == "\x7f";
  return character <= "\xc2\x9f" ||                                       // of Latin 1
         character == "\xd8\x9c" ||                                       // U+061C
         character == "\xe2\x80\x8e" || character == "\xe2\x80\x8f" ||    // U+200E and U+200F
         (character >= "\xe2\x80\xa8" && character <= "\xe2\x80\xae") ||  // U+2028 to U+202E
         (character >= "\xe2\x81\xa6" && character <= "\xe2\x81\xa9");    // U+2066 to U+2069
}

// The bytes of the letter that `text` begins with, or 0 if it begins with none.
std::size_t letter_length(std::string_view text) {
  const std::size_t length = character_length(text);
  return is_control(text.substr(0, length)) ? 0 : length;
}

// `text` with what stands for the bytes that are no letters.
std::string in_letters(std::string_view text, std::string_view line_feed, std::string_view tab) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = letter_length(text);
    if (length > 0) {
      result += text.substr(0, length);
    } else if (text[0] == '\n' || text[0] == '\t') {
      result += text[0] == '\n' ? line_feed : tab;
    } else {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    }
    text.remove_prefix(length > 0 ? length : 1);
  }
  return result;
}

}  // namespace

std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const unsigned second = byte(1);
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool beyond = (first == 0xed && second >= 0xa0) || (first == 0xf4 && second >= 0x90);
  return overlong || beyond ? 0 : length;
}

std::string printable(std::string_view text) {
  return in_letters(text, "\n", "\t");
}

std::string in_one_line(std::string_view text) {
  return in_letters(text, "\\n", "\\t");
}

bool is_one_line_of_letters(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = letter_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace meshwork

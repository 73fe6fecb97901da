// Texts from files as they may go to a terminal, which takes some bytes for commands.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace meshwork {

/// Bytes of a name of a layer, a variable or a link: checkpoints keep them as links.
inline constexpr std::size_t longest_name = 1024;

/// The bytes of the UTF-8 character that `text`, which is not empty, begins with; 0 if it begins
/// with none. Overlong forms, surrogates and what lies beyond U+10FFFF are no characters.
[[nodiscard]] std::size_t character_length(std::string_view text);

/// `text` with every byte as "\x1b" that is no letter: what is not UTF-8, and control characters but
/// line feed and tab. Those that turn the direction of writing or end a line (U+200E, U+200F, U+061C,
/// U+2028 to U+202E, U+2066 to U+2069) are control characters too.
[[nodiscard]] std::string printable(std::string_view text);

/// The same in one line: line feed and tab stand as "\n" and "\t".
[[nodiscard]] std::string in_one_line(std::string_view text);

/// Whether all of `text` is such letters of UTF-8.
[[nodiscard]] bool is_one_line_of_letters(std::string_view text);

}  // namespace meshwork

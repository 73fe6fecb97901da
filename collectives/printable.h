// Texts from files as they may go to a terminal, which takes some bytes for commands.
#pragma once

#include <string>
#include <string_view>

namespace meshwork {

/// `text` with every byte as "\x1b" that is no letter: control characters but line feed and tab, and
/// what is not UTF-8.
[[nodiscard]] std::string printable(std::string_view text);

/// The same in one line: line feed and tab stand as "\n" and "\t".
[[nodiscard]] std::string in_one_line(std::string_view text);

/// Whether all of `text` is letters of UTF-8, without any control character.
[[nodiscard]] bool is_one_line_of_letters(std::string_view text);

}  // namespace meshwork

// Manual pages: text in the macros of man(7).
#pragma once

#include <string>
#include <string_view>

namespace meshwork {

/// `text` as it is printed: no character of it is a command.
[[nodiscard]] std::string roff(std::string_view text);

/// The first lines of page `section` of meshwork, whose NAME line ends with `what`.
[[nodiscard]] std::string roff_title(int section, std::string_view what);

/// An entry of a list: `term` in bold with `value` behind it, and below `page`, made by `roff`.
[[nodiscard]] std::string roff_item(std::string_view term, std::string_view value,
                                    std::string_view page);

/// Paragraphs, with headings (`Examples:`) by the macro `heading` and indented lines as they stand.
[[nodiscard]] std::string roff_text(std::string_view text, std::string_view heading);

}  // namespace meshwork

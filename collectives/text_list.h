// A list of texts as one text, as it travels between ranks: of each entry its length in bytes, a
// colon, and the entry itself, whatever stands in it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace meshwork {

/// Appends `entry` to a list.
void append_entry(std::string& list, std::string_view entry);

/// The entries of a list, which `append_entry` has made.
[[nodiscard]] std::vector<std::string> entries_of(std::string_view list);

}  // namespace meshwork

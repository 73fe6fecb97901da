#include "collectives/text_list.h"

#include <fmt/format.h>

namespace meshwork {

void append_entry(std::string& list, std::string_view entry) {
  list += fmt::format("{}:{}", entry.size(), entry);
}

std::vector<std::string> entries_of(std::string_view list) {
  std::vector<std::string> entries;
  while (!list.empty()) {
    const std::size_t colon = list.find(':');
    const std::size_t length = std::stoull(std::string(list.substr(0, colon)));
    entries.emplace_back(list.substr(colon + 1, length));
    list.remove_prefix(colon + 1 + length);
  }
  return entries;
}

}  // namespace meshwork

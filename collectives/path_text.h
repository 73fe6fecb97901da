// Paths in messages: in one line, and without commands for terminals, whatever a file is called.
//
//     fail("{}: there is no such file", path);
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "collectives/printable.h"

template <>
struct fmt::formatter<std::filesystem::path> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  template <class Context>
  auto format(const std::filesystem::path& path, Context& context) const {
    const std::string text = meshwork::in_one_line(path.string());
    return std::copy(text.begin(), text.end(), context.out());
  }
};

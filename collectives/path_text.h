// Paths in messages: in one line, and without commands for terminals, whatever a file is called.
//
//     fail("{}: there is no such file", path);
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <string_view>

#include "collectives/printable.h"

template <>
struct fmt::formatter<std::filesystem::path> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(const std::filesystem::path& path, Context& context) const {
    return formatter<std::string_view>::format(meshwork::in_one_line(path.string()), context);
  }
};

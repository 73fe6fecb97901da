#include "runtime/config/byte_count.h"

#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

namespace meshwork {
namespace {

// Each 1024 times the one before.
constexpr std::array<std::string_view, 5> units{"B", "KiB", "MiB", "GiB", "TiB"};

}  // namespace

void from_config(const ConfigNode& node, ByteCount& count) {
  const auto text = node.as<std::string>();
  double number = 0;
  const auto [rest, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit(rest, text.data() + text.size());
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  double factor = 1;
  bool known = unit.empty();
  for (std::size_t i = 0; i < units.size() && !known; ++i) {
    known = unit == units[i];
    if (!known) factor *= 1024;
  }
  constexpr double too_many = 0x1p63;
  const double bytes = std::floor(number * factor);
  if (code != std::errc() || !known || !(bytes >= 1) || bytes >= too_many) {
    node.fail("expected {}, found {}", ByteCount::expected, node.found());
  }
  count.bytes = static_cast<std::int64_t>(bytes);
}

std::string to_text(const ByteCount& count) {
  std::int64_t number = count.bytes;
  std::size_t unit = 0;
  while (number > 0 && number % 1024 == 0 && unit + 1 < units.size()) {
    number /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", number, units[unit]);
}

}  // namespace meshwork

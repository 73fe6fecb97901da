// Numbers of bytes, as people write them: 2 GiB, 512 MiB, 1048576.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/config/node.h"

namespace meshwork {

struct ByteCount {
  static constexpr const char* expected = "a number of bytes, like 2 GiB";
  std::int64_t bytes = 0;
};

[[nodiscard]] inline std::vector<std::int64_t> numbers_of(const ByteCount& count) {
  return {count.bytes};
}
/// Throws `ConfigError` for another unit, and for what is not above 0 or needs more than 63 bits.
void from_config(const ConfigNode& node, ByteCount& count);
/// In the largest unit of which it is a whole number.
[[nodiscard]] std::string to_text(const ByteCount& count);

}  // namespace meshwork

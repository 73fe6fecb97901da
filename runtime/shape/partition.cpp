#include "runtime/shape/partition.h"

#include <algorithm>

namespace meshwork {

Range block_range(std::int64_t length, std::int64_t parts, std::int64_t index) {
  __extension__ using Wide = __int128;
  const auto bound = [&](std::int64_t i) {
    std::int64_t product = 0;  // 64 bits do nearly always, and divide many times faster
    if (!__builtin_mul_overflow(i, length, &product)) return product / parts;
    return static_cast<std::int64_t>(static_cast<Wide>(i) * length / parts);
  };
  return {bound(index), bound(index + 1)};
}

Range intersection(const Range& a, const Range& b) {
  const std::int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

}  // namespace meshwork

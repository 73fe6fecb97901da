#include "collectives/copy.h"

#include <cstddef>
#include <vector>

#include "tests/support/catch.h"

namespace meshwork::copy_test {
namespace {

TEST_CASE("every copy writes what it is to write and nothing beside it, wherever it begins") {
  for (const Copy copy : {copy_bytes, stream_bytes}) {
    for (const std::int64_t bytes : {0, 1, 63, 64, 65, 200, 4099}) {
      for (const std::size_t to_offset : {0, 1, 31, 63}) {
        for (const std::size_t from_offset : {0, 1, 40}) {
          CAPTURE(bytes, to_offset, from_offset);
          std::vector<std::byte> from(5000), to(5000, std::byte{7});
          for (std::size_t i = 0; i < from.size(); ++i) from[i] = std::byte(i * 31 % 251);
          std::vector<std::byte> expected = to;
          for (std::size_t i = 0; i < static_cast<std::size_t>(bytes); ++i) {
            expected[to_offset + i] = from[from_offset + i];
          }
          copy(to.data() + to_offset, from.data() + from_offset, bytes);
          REQUIRE(to == expected);
        }
      }
    }
  }
}

TEST_CASE("what outgrows a core's share of the caches goes past them") {
  REQUIRE(copy_of(1 << 20) == copy_bytes);
  REQUIRE(copy_of(64 << 20) == stream_bytes);
}

}  // namespace
}  // namespace meshwork::copy_test

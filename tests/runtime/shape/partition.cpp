#include "runtime/shape/partition.h"

#include "tests/support/catch.h"

namespace meshwork::partition_test {

TEST_CASE("the blocks of a dimension cover it in order and differ by at most one") {
  bool right = true;
  for (std::int64_t length = 0; length < 200; ++length) {
    for (std::int64_t parts = 1; parts <= 16; ++parts) {
      std::int64_t next = 0;
      for (std::int64_t index = 0; index < parts; ++index) {
        const Range block = block_range(length, parts, index);
        right = right && block.begin == next && block.length() >= length / parts &&
                block.length() <= length / parts + 1;
        right = right && (block.length() > 0 || length < parts);
        next = block.end;
      }
      right = right && next == length;
    }
  }
  REQUIRE(right);
}

TEST_CASE("the blocks of the minor parts join to the block of the major one") {
  bool right = true;
  for (std::int64_t length = 0; length < 200; ++length) {
    for (std::int64_t major = 1; major <= 16; ++major) {
      for (std::int64_t minor = 1; minor <= 16; ++minor) {
        for (std::int64_t index = 0; index < major; ++index) {
          const Range block = block_range(length, major, index);
          right = right && block_range(length, major * minor, index * minor).begin == block.begin &&
                  block_range(length, major * minor, index * minor + minor - 1).end == block.end;
        }
      }
    }
  }
  REQUIRE(right);
}

TEST_CASE("ten rows over four parts are 2, 3, 2, 3") {
  CHECK(block_range(10, 4, 0) == Range{0, 2});
  CHECK(block_range(10, 4, 1) == Range{2, 5});
  CHECK(block_range(10, 4, 2) == Range{5, 7});
  CHECK(block_range(10, 4, 3) == Range{7, 10});
}

TEST_CASE("lengths and parts near the largest integer do not overflow") {
  const std::int64_t length = 9'223'372'036'854'775'807;
  CHECK(block_range(length, length, length - 1) == Range{length - 1, length});
  CHECK(block_range(length, 2, 1) == Range{4'611'686'018'427'387'903, length});
}

TEST_CASE("intervals that have nothing in common meet in an empty one") {
  CHECK(intersection({2, 7}, {5, 9}) == Range{5, 7});
  CHECK(intersection({2, 7}, {3, 4}) == Range{3, 4});
  CHECK(intersection({2, 5}, {5, 9}).length() == 0);
  CHECK(intersection({2, 3}, {8, 9}).length() == 0);
  CHECK(intersection({8, 9}, {2, 3}).length() == 0);
}

}  // namespace meshwork::partition_test

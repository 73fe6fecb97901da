#include "runtime/device/philox.h"

#include <array>
#include <random>
#include <set>

#include "runtime/device/philox_lanes.h"
#include "tests/support/catch.h"

namespace meshwork::philox_test {

// The known answers are those that Random123 ships for philox4x32-10 (kat_vectors): counter words,
// key words, result words.
TEST_CASE("philox gives the published known answers") {
  using Words = std::array<std::uint32_t, 4>;
  CHECK(philox(0, 0, 0) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox(~0ull, ~0ull, ~0ull) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("the word of an element is one of its counter's four") {
  const auto words = philox(7, 25, 3);
  for (std::uint64_t i = 0; i < 4; ++i) CHECK(philox_word(7, 100 + i, 3) == words[i]);
}

TEST_CASE("counters side by side give the words of each") {
  constexpr std::size_t count = 32;
  std::mt19937_64 random(5);
  const std::uint64_t key = random(), step = random();
  PhiloxLanes<count> lanes;
  std::array<std::uint64_t, count> blocks;
  const std::uint64_t above = std::uint64_t{0xabcdef01} << 32;  // means nothing
  for (std::size_t c = 0; c < count; ++c) {
    blocks[c] = random();
    const std::array<std::uint64_t, 4> words{blocks[c], blocks[c] >> 32, step, step >> 32};
    for (std::size_t w = 0; w < 4; ++w) lanes[w][c] = above | static_cast<std::uint32_t>(words[w]);
  }
  philox_lanes(key, lanes);
  for (std::size_t c = 0; c < count; ++c) {
    const auto expected = philox(key, blocks[c], step);
    for (std::size_t w = 0; w < 4; ++w) {
      CHECK(static_cast<std::uint32_t>(lanes[w][c]) == expected[w]);
    }
  }
}

TEST_CASE("keys of different paths and seeds differ") {
  std::set<std::uint64_t> keys;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    for (const char* path : {"d1/kernel", "d2/kernel", "d1/bias", "dropout", "", "1d/kernel"}) {
      keys.insert(random_key(seed, path));
    }
  }
  CHECK(keys.size() == 600);
}

}  // namespace meshwork::philox_test

// Hashes against the values that XXH64's own documentation and tests give; sums against a plain
// loop, and over partitions.
#include "runtime/checkpoint/checksum.h"

#include <cstring>
#include <random>
#include <string>

#include "runtime/checkpoint/regions.h"
#include "tests/support/catch.h"
#include "tests/support/tensor.h"

namespace meshwork::checksum_test {

using namespace meshwork::test;

namespace {

std::uint64_t hash_of(const std::string& text) {
  Hash hash;
  hash.add(std::as_bytes(std::span(text)));
  return hash.value();
}

// The formula of the header, an element at a time.
std::uint64_t plain_sum(const std::vector<float>& values) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, &values[i], 4);
    std::uint64_t z = i * 0x9E3779B97F4A7C15ULL + bits;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    sum += z ^ (z >> 31);
  }
  return sum;
}

std::vector<float> values_in(const Shape& shape, const std::vector<float>& all,
                             const Block& block) {
  std::vector<float> values;
  for_each_in_block(shape, block, [&](std::int64_t i) { values.push_back(all[i]); });
  return values;
}

}  // namespace

TEST_CASE("the hash is XXH64") {
  CHECK(hash_of("") == 0xEF46DB3751D8E999U);
  CHECK(hash_of("a") == 0xD24EC4F1A98C6E5BU);
  CHECK(hash_of("abc") == 0x44BC2CF5AD770999U);
  CHECK(hash_of("Nobody inspects the spammish repetition") == 0xFBCEA83C8A378BF1U);
}

TEST_CASE("the hash does not depend on how bytes come in pieces") {
  std::string text;
  for (int i = 0; i < 300; ++i) text.push_back(static_cast<char>(i * 7 + i / 11));
  for (std::size_t length : {0U, 1U, 31U, 32U, 33U, 64U, 100U, 300U}) {
    for (std::size_t piece : {1U, 3U, 8U, 31U, 32U, 33U, 70U}) {
      Hash hash;
      for (std::size_t at = 0; at < length; at += piece) {
        hash.add(std::as_bytes(std::span(text).subspan(at, std::min(piece, length - at))));
      }
      CHECK(hash.value() == hash_of(text.substr(0, length)));
    }
  }
}

TEST_CASE("the parts of any partition add up to the sum of the whole") {
  const Shape shape{5, 7, 3};
  std::mt19937 words(1);
  std::vector<float> all(105);
  for (float& value : all) value = static_cast<float>(words()) / 1e9f;
  const std::uint64_t expected = plain_sum(all);
  CHECK(sum_of(shape, whole(shape), all) == expected);
  for (std::int64_t parts = 1; parts <= 9; ++parts) {
    for (std::size_t dimension = 0; dimension < 3; ++dimension) {
      std::uint64_t sum = 0;
      for (std::int64_t i = 0; i < parts; ++i) {
        Block block = whole(shape);
        block[dimension] = block_range(shape[dimension], parts, i);
        sum += sum_of(shape, block, values_in(shape, all, block));
      }
      CHECK(sum == expected);
    }
  }
  const std::vector<float> one{3.5f};
  CHECK(sum_of({}, {}, one) == plain_sum(one));
}

TEST_CASE("the sum tells changed and exchanged elements") {
  const Shape shape{4};
  const std::vector<float> values{1, 2, 3, 4};
  const std::uint64_t sum = sum_of(shape, whole(shape), values);
  CHECK(sum_of(shape, whole(shape), std::vector<float>{1, 2, 3, 4.0000005f}) != sum);
  CHECK(sum_of(shape, whole(shape), std::vector<float>{2, 1, 3, 4}) != sum);
  CHECK(sum_of({2}, whole({2}), std::vector<float>{0.0f, 0.0f}) !=
        sum_of({2}, whole({2}), std::vector<float>{0.0f, -0.0f}));
}

}  // namespace meshwork::checksum_test

#include "runtime/checkpoint/checksum.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "collectives/error.h"

namespace meshwork {
namespace {

// The primes of the specification.
constexpr std::uint64_t prime_1 = 0x9E3779B185EBCA87U;
constexpr std::uint64_t prime_2 = 0xC2B2AE3D27D4EB4FU;
constexpr std::uint64_t prime_3 = 0x165667B19E3779F9U;
constexpr std::uint64_t prime_4 = 0x85EBCA77C2B2AE63U;
constexpr std::uint64_t prime_5 = 0x27D4EB2F165667C5U;

static_assert(std::endian::native == std::endian::little, "words are read as the file has them");

template <class Word>
std::uint64_t word_at(const std::byte* bytes) {
  Word word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

constexpr std::uint64_t round_of(std::uint64_t lane, std::uint64_t input) {
  return std::rotl(lane + input * prime_2, 31) * prime_1;
}

constexpr std::uint64_t merge(std::uint64_t hash, std::uint64_t lane) {
  return (hash ^ round_of(0, lane)) * prime_1 + prime_4;
}

constexpr std::uint64_t mix(std::uint64_t word) {
  word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9U;
  word = (word ^ (word >> 27)) * 0x94D049BB133111EBU;
  return word ^ (word >> 31);
}

}  // namespace

void Hash::take(const std::byte* stripe) {
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    lanes_[lane] = round_of(lanes_[lane], word_at<std::uint64_t>(stripe + 8 * lane));
  }
}

void Hash::add(std::span<const std::byte> bytes) {
  const std::size_t kept = static_cast<std::size_t>(count_ % stripe_bytes);
  count_ += bytes.size();
  if (kept + bytes.size() < stripe_bytes) {
    std::ranges::copy(bytes, rest_.begin() + kept);
    return;
  }
  if (kept > 0) {
    const std::size_t missing = stripe_bytes - kept;
    std::ranges::copy(bytes.first(missing), rest_.begin() + kept);
    take(rest_.data());
    bytes = bytes.subspan(missing);
  }
  // In registers: the compiler cannot know that the bytes are not the lanes.
  std::array<std::uint64_t, 4> lanes = lanes_;
  for (; bytes.size() >= stripe_bytes; bytes = bytes.subspan(stripe_bytes)) {
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      lanes[lane] = round_of(lanes[lane], word_at<std::uint64_t>(bytes.data() + 8 * lane));
    }
  }
  lanes_ = lanes;
  std::ranges::copy(bytes, rest_.begin());
}

std::uint64_t Hash::value() const {
  std::uint64_t hash = prime_5;
  if (count_ >= stripe_bytes) {
    hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) +
           std::rotl(lanes_[3], 18);
    for (const std::uint64_t lane : lanes_) {
      hash = merge(hash, lane);
    }
  }
  hash += count_;
  const std::byte* at = rest_.data();
  std::size_t left = static_cast<std::size_t>(count_ % stripe_bytes);
  for (; left >= 8; at += 8, left -= 8) {
    hash = std::rotl(hash ^ round_of(0, word_at<std::uint64_t>(at)), 27) * prime_1 + prime_4;
  }
  if (left >= 4) {
    hash = std::rotl(hash ^ (word_at<std::uint32_t>(at) * prime_1), 23) * prime_2 + prime_3;
    at += 4;
    left -= 4;
  }
  for (; left > 0; ++at, --left) {
    hash = std::rotl(hash ^ (word_at<std::uint8_t>(at) * prime_5), 11) * prime_1;
  }
  hash = (hash ^ (hash >> 33)) * prime_2;
  hash = (hash ^ (hash >> 29)) * prime_3;
  return hash ^ (hash >> 32);
}

std::uint64_t sum_of(const Shape& shape, const Block& block, std::span<const float> values) {
  const Shape extent = shape_of(block);
  if (static_cast<std::int64_t>(values.size()) != element_count(extent)) {
    internal_error("values that are not those of the block");
  }
  // Row by row: in the last dimension indices follow each other.
  const std::int64_t columns = extent.empty() ? 1 : extent.back();
  const std::int64_t rows = columns == 0 ? 0 : static_cast<std::int64_t>(values.size()) / columns;
  std::uint64_t sum = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t rest = row;
    std::int64_t first = extent.empty() ? 0 : block.back().begin;
    std::int64_t stride = extent.empty() ? 1 : shape.back();
    for (std::size_t d = extent.empty() ? 0 : extent.size() - 1; d-- > 0;) {
      first += (block[d].begin + rest % extent[d]) * stride;
      rest /= extent[d];
      stride *= shape[d];
    }
    const float* at = values.data() + row * columns;
    const std::uint64_t base = static_cast<std::uint64_t>(first) * 0x9E3779B97F4A7C15U;
    for (std::int64_t column = 0; column < columns; ++column) {
      sum += mix(base + static_cast<std::uint64_t>(column) * 0x9E3779B97F4A7C15U +
                 std::bit_cast<std::uint32_t>(at[column]));
    }
  }
  return sum;
}

}  // namespace meshwork

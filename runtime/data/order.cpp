#include "runtime/data/order.h"

#include "collectives/error.h"
#include "runtime/device/philox.h"

#include <cmath>

namespace meshwork {

namespace {

// Four rounds of a random function are enough for large halves (Luby and Rackoff); small data sets
// have halves of a few values, where more rounds mix better.
constexpr std::uint64_t round_count = 8;

/// The smallest a with a * a >= rows.
std::uint64_t square_root_above(std::uint64_t rows) {
  std::uint64_t root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(rows)));
  while (root > 0 && (root - 1) * (root - 1) >= rows) --root;
  while (root * root < rows) ++root;
  return root;
}

}  // namespace

SampleOrder SampleOrder::identity(std::int64_t rows) {
  if (rows < 0) fail("an order of {} samples; the number cannot be negative", rows);
  return SampleOrder(rows);
}

SampleOrder SampleOrder::shuffled(std::int64_t rows, std::uint64_t seed, std::int64_t epoch) {
  SampleOrder order = identity(rows);
  order.shuffled_ = rows > 1;
  order.key_ = random_key(seed, "order of samples");
  order.epoch_ = static_cast<std::uint64_t>(epoch);
  if (order.shuffled_) {
    const std::uint64_t count = static_cast<std::uint64_t>(rows);
    order.left_size_ = square_root_above(count);
    order.right_size_ = (count + order.left_size_ - 1) / order.left_size_;
  }
  return order;
}

std::uint64_t SampleOrder::permute(std::uint64_t index) const {
  std::uint64_t left = index % left_size_;
  std::uint64_t right = index / left_size_;
  // A number below `size` from the round and a half. Halves are below 2^32: a counter block is the
  // round above 32 bits of half. The upper part of a product scales 64 random bits without a
  // division.
  const auto random = [this](std::uint64_t round, std::uint64_t half, std::uint64_t size) {
    __extension__ using Wide = unsigned __int128;
    const auto words = philox(key_, round << 32 | half, epoch_);
    const std::uint64_t bits = std::uint64_t{words[1]} << 32 | words[0];
    return static_cast<std::uint64_t>(static_cast<Wide>(bits) * size >> 64);
  };
  for (std::uint64_t round = 0; round < round_count; round += 2) {
    left += random(round, right, left_size_);
    if (left >= left_size_) left -= left_size_;
    right += random(round + 1, left, right_size_);
    if (right >= right_size_) right -= right_size_;
  }
  return right * left_size_ + left;
}

std::int64_t SampleOrder::at(std::int64_t position) const {
  if (!shuffled_) return position;
  std::uint64_t index = static_cast<std::uint64_t>(position);
  do {
    index = permute(index);
  } while (index >= static_cast<std::uint64_t>(rows_));
  return static_cast<std::int64_t>(index);
}

void SampleOrder::fill(std::int64_t first, std::span<std::int64_t> samples) const {
  for (std::int64_t& sample : samples) sample = at(first++);
}

}  // namespace meshwork

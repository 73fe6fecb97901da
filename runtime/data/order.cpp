#include "runtime/data/order.h"

#include "collectives/error.h"
#include "runtime/device/philox.h"
#include "runtime/device/philox_lanes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

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

void SampleOrder::permute(Group& indices) const {
  alignas(64) Group left, right;
  for (std::size_t i = 0; i < group_size; ++i) {
    left[i] = indices[i] % left_size_;
    right[i] = indices[i] / left_size_;
  }
  // Adds to `to`, modulo `size`, a number from the round and the other half. Halves are below 2^32:
  // a counter block is the round above 32 bits of half. The upper part of a product scales 64
  // random bits without a division; sizes are below 2^32 too, so that it is had of two products.
  const auto add_random = [this](std::uint64_t round, const Group& half, Group& to,
                                 std::uint64_t size) {
    alignas(64) PhiloxLanes<group_size> words;
#pragma omp simd
    for (std::size_t i = 0; i < group_size; ++i) {
      words[0][i] = half[i];
      words[1][i] = round;
      words[2][i] = epoch_;
      words[3][i] = epoch_ >> 32;
    }
    philox_lanes(key_, words);
#pragma omp simd
    for (std::size_t i = 0; i < group_size; ++i) {
      constexpr std::uint64_t low = 0xffffffffu;
      const std::uint64_t random =
          ((words[1][i] & low) * size + (((words[0][i] & low) * size) >> 32)) >> 32;
      const std::uint64_t sum = to[i] + random;
      to[i] = sum >= size ? sum - size : sum;
    }
  };
  for (std::uint64_t round = 0; round < round_count; round += 2) {
    add_random(round, right, left, left_size_);
    add_random(round + 1, left, right, right_size_);
  }
  for (std::size_t i = 0; i < group_size; ++i) indices[i] = right[i] * left_size_ + left[i];
}

std::int64_t SampleOrder::at(std::int64_t position) const {
  std::int64_t sample = 0;
  fill(position, {&sample, 1});
  return sample;
}

void SampleOrder::fill(std::int64_t first, std::span<std::int64_t> samples) const {
  if (!shuffled_) {
    std::iota(samples.begin(), samples.end(), first);
    return;
  }
  const auto rows = static_cast<std::uint64_t>(rows_);
  alignas(64) Group group{};
  for (std::size_t begin = 0; begin < samples.size(); begin += group_size) {
    const std::size_t count = std::min(group_size, samples.size() - begin);
    std::iota(group.begin(), group.end(), static_cast<std::uint64_t>(first) + begin);
    permute(group);
    for (std::size_t i = 0; i < count; ++i) {
      // Rarely one walks on, alone.
      std::uint64_t index = group[i];
      while (index >= rows) {
        alignas(64) Group alone{};
        alone[0] = index;
        permute(alone);
        index = alone[0];
      }
      samples[begin + i] = static_cast<std::int64_t>(index);
    }
  }
}

}  // namespace meshwork

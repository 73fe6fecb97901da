// Sums by channel: of two terms for each element of x (rows, channels), over the rows, in double.
//
// Rows are short (12 channels), so they are taken in *groups* whose lanes fill vectors: a group is
// as many rows as make the number of its elements, its lanes, a multiple of the vector's. Some
// lanes are kept in registers over a stretch of rows that the first cache holds; then they go to
// the lanes of a part, and parts are added in order. Parts depend on the number of rows and
// channels alone.
//
// What is added up is a type with
//   static constexpr int lanes                 lanes taken together
//   at<width>(lane)                            the constants of `width` lanes from `lane` on, with
//     add(element, sums)                         adds the terms of those lanes of one group
//     add_four(element, stride, s0, ..., s3)     the same of four groups, `stride` elements apart
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>

#include "runtime/device/cpu/loops.h"

namespace meshwork::cpu {

/// Rows of a group, such that rows * channels is a multiple of `lanes` and at least `least`; from
/// 64 channels on a group is one row, whatever it leaves over.
inline std::int64_t rows_of_group(std::int64_t channels, std::int64_t lanes, std::int64_t least) {
  if (channels >= 64 || channels == 0) return 1;
  const std::int64_t rows = lanes / std::gcd(channels, lanes);
  return rows * std::max<std::int64_t>(1, (least + rows * channels - 1) / (rows * channels));
}

template <int width>
using Floats [[gnu::vector_size(width * sizeof(float))]] = float;
template <int width>
using Doubles [[gnu::vector_size(width * sizeof(double))]] = double;

template <class Vector>
[[gnu::always_inline]] inline void load(Vector& to, const float* from) {
  std::memcpy(&to, from, sizeof(Vector));
}

/// Where the rows of a sum are cut.
struct SumPlan {
  SumPlan(std::int64_t rows_given, std::int64_t channels_given, std::int64_t inputs)
      : rows(rows_given), channels(channels_given), group(rows_of_group(channels, 8, 0)) {
    constexpr std::int64_t bytes_a_part = 64 * 1024, bytes_a_stretch = 16 * 1024;
    const std::int64_t row_bytes = std::max<std::int64_t>(1, 4 * inputs * channels);
    groups = rows / group;
    parts = std::clamp<std::int64_t>(rows * row_bytes / bytes_a_part, 1, 64);
    stretch = std::max<std::int64_t>(1, bytes_a_stretch / (row_bytes * group));
  }
  [[nodiscard]] std::int64_t lanes() const { return group * channels; }
  [[nodiscard]] std::int64_t bytes() const {
    // Never 0, lest there be no workspace to ask for.
    return parts * 2 * std::max<std::int64_t>(1, lanes()) *
           static_cast<std::int64_t>(sizeof(double));
  }

  std::int64_t rows, channels;
  std::int64_t group, groups;  // rows of one; whole ones
  std::int64_t parts, stretch;
};

/// Sums of the two terms of some lanes.
template <int width>
struct Sums {
  Doubles<width> a{}, b{};
};

/// sums[0 .. stride) and sums[stride .. 2 stride) += the two terms, for `width` lanes from `lane`
/// on, over `count` groups from `first` on. `terms.template at<width>(lane)` holds the lanes'
/// constants; its `add` takes the elements of one group, its `add_four` those of four.
template <int width, class Terms>
void add_lanes(const Terms& terms, std::int64_t stride, std::int64_t lane, std::int64_t first,
               std::int64_t count, double* sums) {
  const auto term = terms.template at<width>(lane);
  // Four side by side: one would wait for its own last addition.
  Sums<width> s0, s1, s2, s3;
  std::int64_t element = first * stride + lane;
  std::int64_t g = 0;
  for (; g + 4 <= count; g += 4, element += 4 * stride) {
    term.add_four(element, stride, s0, s1, s2, s3);
  }
  for (; g < count; ++g, element += stride) term.add(element, s0);
  const Doubles<width> a = (s0.a + s1.a) + (s2.a + s3.a), b = (s0.b + s1.b) + (s2.b + s3.b);
  for (int i = 0; i < width; ++i) {
    sums[lane + i] += a[i];
    sums[stride + lane + i] += b[i];
  }
}

template <class Terms>
void add_stretch(const Terms& terms, std::int64_t lanes, std::int64_t stride, std::int64_t first,
                 std::int64_t count, double* sums) {
  std::int64_t lane = 0;
  for (; lane + Terms::lanes <= lanes; lane += Terms::lanes) {
    add_lanes<Terms::lanes>(terms, stride, lane, first, count, sums);
  }
  for (; lane < lanes; ++lane) add_lanes<1>(terms, stride, lane, first, count, sums);
}

/// z (2, channels) = the sums of both terms over the rows.
template <class Terms>
void sum_channels(int threads, const SumPlan& plan, const Terms& terms, double* partial,
                  double* z) {
  const std::int64_t lanes = plan.lanes();
  for_rows(threads, plan.parts, plan.groups * lanes * 4 / plan.parts, [&](std::int64_t part) {
    double* sums = partial + part * 2 * lanes;
    std::fill_n(sums, 2 * lanes, 0.0);
    const Range range =
        block_range(plan.groups, static_cast<int>(plan.parts), static_cast<int>(part));
    for (std::int64_t g = range.begin; g < range.end; g += plan.stretch) {
      add_stretch(terms, lanes, lanes, g, std::min(plan.stretch, range.end - g), sums);
    }
    // What is less than a group.
    if (part + 1 == plan.parts) {
      add_stretch(terms, (plan.rows - plan.groups * plan.group) * plan.channels, lanes, plan.groups,
                  1, sums);
    }
  });
  for (std::int64_t c = 0; c < plan.channels; ++c) {
    double first = 0, second = 0;
    for (std::int64_t part = 0; part < plan.parts; ++part) {
      const double* sums = partial + part * 2 * lanes;
      for (std::int64_t lane = c; lane < lanes; lane += plan.channels) {
        first += sums[lane];
        second += sums[lanes + lane];
      }
    }
    z[c] = first;
    z[plan.channels + c] = second;
  }
}

}  // namespace meshwork::cpu

// The forms of loop that the CPU's kernels are made of.
//
// `for_ranges` spreads independent elements over threads. `lane_sum` and `fixed_sum` add up in an
// order that depends on nothing but the count: not on the number of threads, nor on where in memory
// the operands lie. So every kernel gives the same bits wherever it runs.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

#include "runtime/device/body_kernel.h"
#include "runtime/device/cpu/kernels.h"
#include "runtime/device/cpu/threads.h"
#include "runtime/device/folds.h"
#include "runtime/shape/partition.h"

namespace meshwork::cpu {

/// Below this many bytes of traffic a thread costs more than it saves.
constexpr std::int64_t bytes_worth_a_thread = 128 * 1024;

/// How many of `threads` are worth their start for `count` items of `bytes` each.
[[nodiscard]] inline int threads_worth(int threads, std::int64_t count, std::int64_t bytes) {
  if (threads <= 1) return 1;
  return static_cast<int>(
      std::clamp<std::int64_t>(count * bytes / bytes_worth_a_thread, 1, threads));
}

/// body(begin, end), never inlined: GCC, where it sees that a loop begins at 0, takes its first
/// loads out of it and then cannot vectorise what is left (Adam ran ten times slower).
template <class Body>
[[gnu::noipa]] void run_range(const Body& body, std::int64_t begin, std::int64_t end) {
  body(begin, end);
}

/// Calls body(begin, end) on intervals that cover [0, count), each on a thread of its own. `bytes`
/// is what an item costs in traffic. Intervals begin at multiples of `block` items.
template <class Body>
void for_blocks(int threads, std::int64_t count, std::int64_t bytes, std::int64_t block,
                const Body& body) {
  const int team = threads_worth(threads, count, bytes);
  if (team == 1) {
    if (count > 0) run_range(body, 0, count);
    return;
  }
  const std::int64_t blocks = (count + block - 1) / block;
  run_team(team, [&](int part) {
    const Range range = block_range(blocks, team, part);
    const std::int64_t begin = range.begin * block, end = std::min(range.end * block, count);
    if (begin < end) run_range(body, begin, end);
  });
}
/// The same for numbers: threads share no cache line.
template <class Body>
void for_ranges(int threads, std::int64_t count, std::int64_t bytes, const Body& body) {
  for_blocks(threads, count, bytes, 64, body);
}
/// The same for rows, which may begin anywhere: body(row).
template <class Body>
void for_rows(int threads, std::int64_t rows, std::int64_t row_bytes, const Body& body) {
  for_blocks(threads, rows, row_bytes, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) body(row);
  });
}

/// The sum of term(i) over [begin, end) in double: element i goes to lane (i - begin) mod 16, what
/// is left of a last incomplete group is added first, the lanes follow in order.
template <class Term>
[[nodiscard]] double lane_sum(std::int64_t begin, std::int64_t end, const Term& term) {
  constexpr int lanes = 16;
  double totals[lanes] = {};
  std::int64_t i = begin;
  for (; i + lanes <= end; i += lanes) {
    decltype(term(i)) values[lanes];
#pragma omp simd
    for (int lane = 0; lane < lanes; ++lane) values[lane] = term(i + lane);
#pragma omp simd
    for (int lane = 0; lane < lanes; ++lane) totals[lane] += static_cast<double>(values[lane]);
  }
  double sum = 0;
  for (; i < end; ++i) sum += static_cast<double>(term(i));
  if (end - begin < lanes) return sum;
  for (const double total : totals) sum += total;
  return sum;
}

/// term(j) of all j in [0, count) by `Fold`, in 16 lanes; sums are those of `lane_sum`.
template <class Fold, class Term>
[[nodiscard]] typename Fold::Value lane_fold(std::int64_t count, const Term& term) {
  if constexpr (std::is_same_v<Fold, folds::Sum>) {
    return lane_sum(0, count, term);
  } else if constexpr (std::is_same_v<Fold, folds::First>) {
    std::int64_t j = 0;
    while (j < count && !term(j)) ++j;
    return j < count ? j : Fold::identity();
  } else if constexpr (std::is_same_v<Fold, folds::Added<PairOfSums>>) {
    constexpr int lanes = 16;
    double first[lanes] = {}, second[lanes] = {};
    std::int64_t j = 0;
    for (; j + lanes <= count; j += lanes) {
#pragma omp simd
      for (int lane = 0; lane < lanes; ++lane) {
        const PairOfSums terms = term(j + lane);
        first[lane] += terms.first;
        second[lane] += terms.second;
      }
    }
    PairOfSums sums{0, 0};
    for (; j < count; ++j) sums = sums + term(j);
    for (int lane = 0; lane < lanes; ++lane) sums = sums + PairOfSums{first[lane], second[lane]};
    return sums;
  } else {
    constexpr int lanes = 16;
    typename Fold::Value values[lanes];
    std::fill_n(values, lanes, Fold::identity());
    std::int64_t j = 0;
    for (; j + lanes <= count; j += lanes) {
#pragma omp simd
      for (int lane = 0; lane < lanes; ++lane) {
        values[lane] = Fold::combine(values[lane], term(j + lane));
      }
    }
    for (; j < count; ++j) values[0] = Fold::combine(values[0], term(j));
    for (int lane = 1; lane < lanes; ++lane) values[0] = Fold::combine(values[0], values[lane]);
    return values[0];
  }
}

/// sum(begin, end) added up over at most 64 parts of [0, count), which depend on `count` and
/// `bytes`, the traffic of an item, alone.
template <class PartSum>
[[nodiscard]] double fixed_sum(int threads, std::int64_t count, std::int64_t bytes,
                               const PartSum& sum) {
  constexpr std::int64_t bytes_a_part = 64 * 1024;
  constexpr std::int64_t most_parts = 64;
  const auto parts =
      static_cast<int>(std::clamp<std::int64_t>(count * bytes / bytes_a_part, 1, most_parts));
  std::array<double, most_parts> sums{};
  for_rows(threads_worth(threads, count, bytes), parts, bytes_worth_a_thread,
           [&](std::int64_t part) {
             const Range range = block_range(count, parts, part);
             sums[static_cast<std::size_t>(part)] = sum(range.begin, range.end);
           });
  double total = 0;
  for (int part = 0; part < parts; ++part) total += sums[static_cast<std::size_t>(part)];
  return total;
}

}  // namespace meshwork::cpu

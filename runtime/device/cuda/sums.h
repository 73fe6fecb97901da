// Sums in a fixed order, in double, made of launch.h's forms: over all terms, and over columns.
#pragma once

#include <cstdint>

#include "runtime/device/cuda/launch.h"
#include "runtime/device/cuda/parts.h"
#include "runtime/device/host_device.h"

namespace meshwork::cuda {

/// The terms of each part added up.
template <class Term>
struct PartSums {
  using Fold = folds::Sum;
  std::int64_t count, length;
  Term add;
  double* partial;
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t columns(std::int64_t part) const {
    const std::int64_t left = count - part * length;
    return left < length ? left : length;
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE double term(std::int64_t part, std::int64_t j) const {
    return add(part * length + j);
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t part, double sum) const { partial[part] = sum; }
};

/// All of them added up and handed to `end(sum)`.
template <class Term, class End>
struct WholeSum {
  using Fold = folds::Sum;
  std::int64_t count;
  Term add;
  End end;
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t columns(std::int64_t) const { return count; }
  [[nodiscard]] MESHWORK_HOST_DEVICE double term(std::int64_t, std::int64_t j) const {
    return add(j);
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t, double sum) const { end(sum); }
};

struct PartialSum {
  const double* partial;
  MESHWORK_HOST_DEVICE double operator()(std::int64_t part) const { return partial[part]; }
};

/// end(sum of add(i) over the terms), one launch for few terms, two for many. `partial` has
/// parts.bytes().
template <class Term, class End>
void sum_all(const Launcher& launcher, const SumParts& parts, const Term& add, const End& end,
             double* partial) {
  if (parts.parts == 1) {
    reduce_rows(launcher, 1, parts.count, WholeSum<Term, End>{parts.count, add, end});
    return;
  }
  reduce_rows(launcher, parts.parts, parts.length,
              PartSums<Term>{parts.count, parts.length, add, partial});
  reduce_rows(launcher, 1, parts.parts,
              WholeSum<PartialSum, End>{parts.parts, PartialSum{partial}, end});
}

/// *to = scale * sum.
struct ScaledTo {
  double* to;
  double scale;
  MESHWORK_HOST_DEVICE void operator()(double sum) const { *to = scale * sum; }
};

/// The partial sums of a column added up in the order of its parts' lanes.
template <class Terms>
struct ColumnEnd {
  using Fold = folds::Added<PairOfSums>;
  const PairOfSums* partial;
  std::int64_t column_count, part_count;
  Terms terms;
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t columns(std::int64_t) const { return part_count; }
  [[nodiscard]] MESHWORK_HOST_DEVICE PairOfSums term(std::int64_t column, std::int64_t part) const {
    return partial[part * column_count + column];
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t column, const PairOfSums& sums) const {
    terms.finish(column, sums);
  }
};

[[nodiscard]] inline std::int64_t column_sum_bytes(const ColumnParts& parts) {
  return parts.parts > 1
             ? parts.parts * parts.columns * static_cast<std::int64_t>(sizeof(PairOfSums))
             : 0;
}

/// finish(column, { sum of term(row, column).first over the rows, the same of .second }) for each
/// column. `partial` has column_sum_bytes().
template <class Terms>
void reduce_columns(const Launcher& launcher, const ColumnParts& parts, const Terms& terms,
                    void* partial) {
  if (parts.columns <= 0) return;
  if (parts.parts == 1) {
    sum_column_parts(launcher, parts, terms, nullptr);
    return;
  }
  auto* sums = static_cast<PairOfSums*>(partial);
  sum_column_parts(launcher, parts, terms, sums);
  reduce_rows(launcher, parts.columns, parts.parts,
              ColumnEnd<Terms>{sums, parts.columns, parts.parts, terms});
}

}  // namespace meshwork::cuda

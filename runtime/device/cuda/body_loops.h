// The GPU's loops for bodies that all devices share (body_forms.h).
//
// A thread an element, blocks of 256 over the whole GPU, but for reductions: a warp or a block a
// row, sums in two passes of up to 1024 blocks and of one. Bound by memory traffic, for few values
// by the launch.
#pragma once

#include <algorithm>
#include <type_traits>

#include "runtime/device/body_forms.h"
#include "runtime/device/cuda/functions.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/sums.h"
#include "runtime/device/kernels/middle.h"

namespace meshwork::cuda {

template <class Body>
struct InGrid {
  std::int64_t columns;
  Body body;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    body.row(i / columns)(i % columns, i);
  }
};

/// As reductions of rows (launch.h).
template <class Body>
struct InRows {
  using Fold = typename Body::Fold;
  std::int64_t width;
  Body body;
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t columns(std::int64_t) const { return width; }
  [[nodiscard]] MESHWORK_HOST_DEVICE typename Fold::Value term(std::int64_t row,
                                                               std::int64_t j) const {
    const std::int64_t i = row * width + j;
    if constexpr (requires { body.row(row); }) body.row(row)(j, i);
    if constexpr (std::is_same_v<Fold, folds::First>) {
      return body.term(row, j, i) ? j : Fold::identity();
    } else {
      return body.term(row, j, i);
    }
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t row, const typename Fold::Value& value) const {
    body.finish(row, value);
  }
};
/// A team folds a row and writes it.
template <class Body>
struct InTeams {
  std::int64_t width;
  Body body;
  template <class Team>
  MESHWORK_DEVICE void operator()(std::int64_t row, const Team& team) const {
    const std::int64_t first = row * width;
    const auto value = team.template reduce<typename Body::Fold>(
        width, [&](std::int64_t j) { return body.term(row, j, first + j); });
    if (team.leads()) body.finish(row, value);
    const auto of_row = body.row(row, value);
    team.each(width, [&](std::int64_t j) { of_row(j, first + j); });
  }
};
/// As reductions of columns (sums.h).
template <class Body>
struct InColumns {
  std::int64_t width;
  Body body;
  [[nodiscard]] MESHWORK_HOST_DEVICE PairOfSums term(std::int64_t row, std::int64_t column) const {
    return body.row(row)(column, row * width + column);
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t column, const PairOfSums& sums) const {
    body.finish(column, sums);
  }
};
/// A tile a thread: one column of a part of the rows.
template <class Body>
struct InTiles {
  std::int64_t rows, columns, parts;
  Body body;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t part = i / columns, column = i % columns;
    body(rows * part / parts, rows * (part + 1) / parts, column, column + 1);
  }
};
/// A row is a result, its columns are the elements of the middle dimension.
template <class Body>
struct InMiddle {
  using Fold = typename Body::Fold;
  std::int64_t middle, inner;
  Body body;
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t columns(std::int64_t) const { return middle; }
  [[nodiscard]] MESHWORK_HOST_DEVICE typename Fold::Value term(std::int64_t result,
                                                               std::int64_t i) const {
    const std::int64_t outer = result / inner;
    return body.term(result, (outer * middle + i) * inner + (result - outer * inner));
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t result, const typename Fold::Value& value) const {
    body.finish(result, value);
  }
};
/// A reduction as one thread does it.
template <class Reduction>
struct InOneThread {
  Reduction reduction;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t row) const {
    using Fold = typename Reduction::Fold;
    typename Fold::Value value = Fold::identity();
    const std::int64_t columns = reduction.columns(row);
    for (std::int64_t i = 0; i < columns; ++i) value = Fold::combine(value, reduction.term(row, i));
    reduction.finish(row, value);
  }
};
template <class Body>
struct Spread {
  std::int64_t middle, inner;
  Body body;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / inner, result = row / middle * inner + (i - row * inner);
    body(i, result, body.share(result));
  }
};

struct Loops {
  using Math = cuda::Math;

  static KernelPointer elements(const Context& context, std::int64_t count, std::int64_t /*bytes*/,
                                auto make) {
    return make_kernel([=, launcher = context.launcher](void* const* operands) {
      for_elements(launcher, count, make(operands));
    });
  }
  template <class T>
  static std::shared_ptr<const Memory> table(const Context& context, const std::vector<T>& values) {
    return context.upload(values.data(), static_cast<std::int64_t>(values.size() * sizeof(T)));
  }
  static KernelPointer grid(const Context& context, std::int64_t rows, std::int64_t columns,
                            std::int64_t /*bytes*/, auto make) {
    return make_kernel([=, launcher = context.launcher](void* const* operands) {
      for_elements(launcher, rows * columns,
                   InGrid<decltype(make(operands))>{columns, make(operands)});
    });
  }
  static KernelPointer sum(const Context& context, std::int64_t count, std::int64_t /*bytes*/,
                           int operand_count, double scale, auto make) {
    const SumParts parts(count);
    return make_kernel(
        [=, launcher = context.launcher](void* const* operands) {
          sum_all(launcher, parts, make(operands),
                  ScaledTo{at<double>(operands, operand_count - 1), scale},
                  parts.parts > 1 ? at<double>(operands, operand_count) : nullptr);
        },
        parts.bytes());
  }
  static KernelPointer rows(const Context& context, std::int64_t rows, std::int64_t columns,
                            std::int64_t /*bytes*/, auto make) {
    return make_kernel([=, launcher = context.launcher](void* const* operands) {
      reduce_rows(launcher, rows, columns,
                  InRows<decltype(make(operands))>{columns, make(operands)});
    });
  }
  static KernelPointer rows_then(const Context& context, std::int64_t rows, std::int64_t columns,
                                 std::int64_t /*bytes*/, auto make) {
    return make_kernel([=, launcher = context.launcher](void* const* operands) {
      for_teams(launcher, rows, columns,
                InTeams<decltype(make(operands))>{columns, make(operands)});
    });
  }
  static KernelPointer columns(const Context& context, std::int64_t rows, std::int64_t columns,
                               std::int64_t /*bytes*/, int operand_count, auto make) {
    const ColumnParts parts(rows, columns);
    const std::int64_t bytes = column_sum_bytes(parts);
    return make_kernel(
        [=, launcher = context.launcher](void* const* operands) {
          reduce_columns(launcher, parts,
                         InColumns<decltype(make(operands))>{columns, make(operands)},
                         bytes > 0 ? operands[operand_count] : nullptr);
        },
        bytes);
  }
  static KernelPointer tiles(const Context& context, std::int64_t rows, std::int64_t columns,
                             std::int64_t /*bytes*/, auto make) {
    constexpr std::int64_t most_parts = 64;
    const std::int64_t parts = std::min(rows, most_parts);
    return make_kernel([=, launcher = context.launcher](void* const* operands) {
      for_elements(launcher, parts * columns,
                   InTiles<decltype(make(operands))>{rows, columns, parts, make(operands)});
    });
  }
  // A thread a result where `inner` fills a warp, so that neighbours read neighbours; else a warp
  // or a block a result, whose threads share the middle.
  static KernelPointer middle(const Context& context, const MiddleExtents& extents, auto make) {
    return make_kernel([=, launcher = context.launcher](void* const* operands) {
      const InMiddle<decltype(make(operands))> reduction{extents.middle, extents.inner,
                                                         make(operands)};
      const std::int64_t results = extents.outer * extents.inner;
      if (extents.inner >= narrow_group) {
        for_elements(launcher, results, InOneThread<decltype(reduction)>{reduction});
      } else {
        reduce_rows(launcher, results, extents.middle, reduction);
      }
    });
  }
  static KernelPointer spread(const Context& context, const MiddleExtents& extents,
                              std::int64_t /*bytes*/, auto make) {
    return make_kernel([=, launcher = context.launcher](void* const* operands) {
      for_elements(launcher, extents.outer * extents.middle * extents.inner,
                   Spread<decltype(make(operands))>{extents.middle, extents.inner, make(operands)});
    });
  }
};

}  // namespace meshwork::cuda

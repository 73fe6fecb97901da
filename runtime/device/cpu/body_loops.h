// The CPU's loops for bodies that all devices share (body_forms.h), which vectorise.
#pragma once

#include <algorithm>
#include <memory>
#include <type_traits>
#include <vector>

#include "runtime/device/body_forms.h"
#include "runtime/device/cpu/loops.h"
#include "runtime/device/cpu/vector_math.h"
#include "runtime/device/folds.h"
#include "runtime/device/kernels/middle.h"

namespace meshwork::cpu {

struct Loops {
  struct Math {
    static float exp(float x) { return vector_exp(x); }
    static float log(float x) { return vector_log(x); }
    static float log1p(float x) { return vector_log1p(x); }
    static float sigmoid(float x) { return vector_sigmoid(x); }
    static float tanh(float x) { return vector_tanh(x); }
    static float normal_cdf(float x) { return vector_normal_cdf(x); }
  };

  static KernelPointer elements(const Context& context, std::int64_t count, std::int64_t bytes,
                                auto make) {
    return make_kernel([=, threads = context.threads](void* const* operands) {
      const auto body = make(operands);
      for_ranges(threads, count, bytes, [=](std::int64_t begin, std::int64_t end) {
        const auto own = body;  // whose values stay in registers
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) own(i);
      });
    });
  }
  template <class T>
  static std::shared_ptr<const std::vector<T>> table(const Context&, const std::vector<T>& values) {
    return std::make_shared<const std::vector<T>>(values);
  }
  static KernelPointer grid(const Context& context, std::int64_t rows, std::int64_t columns,
                            std::int64_t bytes, auto make) {
    return make_kernel([=, threads = context.threads](void* const* operands) {
      const auto body = make(operands);
      for_rows(threads, rows, columns * bytes, [=](std::int64_t row) {
        const auto of_row = body.row(row);
#pragma omp simd
        for (std::int64_t j = 0; j < columns; ++j) of_row(j, row * columns + j);
      });
    });
  }
  static KernelPointer sum(const Context& context, std::int64_t count, std::int64_t bytes,
                           int operand_count, double scale, auto make) {
    return make_kernel([=, threads = context.threads](void* const* operands) {
      const auto part_sum = [body = make(operands)](std::int64_t begin, std::int64_t end) {
        return lane_sum(begin, end, body);
      };
      *at<double>(operands, operand_count - 1) = scale * fixed_sum(threads, count, bytes, part_sum);
    });
  }

  static KernelPointer rows(const Context& context, std::int64_t rows, std::int64_t columns,
                            std::int64_t bytes, auto make) {
    return make_kernel([=, threads = context.threads](void* const* operands) {
      const auto body = make(operands);
      for_rows(threads, rows, columns * bytes, [=](std::int64_t row) {
        const auto own = body;  // whose values stay in registers
        const std::int64_t first = row * columns;
        if constexpr (requires { own.row(row); }) {
          const auto of_row = own.row(row);
#pragma omp simd
          for (std::int64_t j = 0; j < columns; ++j) of_row(j, first + j);
        }
        using Fold = typename std::remove_const_t<decltype(own)>::Fold;
        own.finish(row, lane_fold<Fold>(
                            columns, [=](std::int64_t j) { return own.term(row, j, first + j); }));
      });
    });
  }

  static KernelPointer rows_then(const Context& context, std::int64_t rows, std::int64_t columns,
                                 std::int64_t bytes, auto make) {
    return make_kernel([=, threads = context.threads](void* const* operands) {
      const auto body = make(operands);
      for_rows(threads, rows, columns * bytes, [=](std::int64_t row) {
        const auto own = body;  // whose values stay in registers
        const std::int64_t first = row * columns;
        using Fold = typename std::remove_const_t<decltype(own)>::Fold;
        const auto value =
            lane_fold<Fold>(columns, [=](std::int64_t j) { return own.term(row, j, first + j); });
        own.finish(row, value);
        const auto of_row = own.row(row, value);
#pragma omp simd
        for (std::int64_t j = 0; j < columns; ++j) of_row(j, first + j);
      });
    });
  }
  /// A tile a thread, of whole rows.
  static KernelPointer tiles(const Context& context, std::int64_t rows, std::int64_t columns,
                             std::int64_t bytes, auto make) {
    return make_kernel([=, threads = context.threads](void* const* operands) {
      const auto body = make(operands);
      for_ranges(threads, rows, columns * bytes,
                 [=](std::int64_t begin, std::int64_t end) { body(begin, end, 0, columns); });
    });
  }
  // Parts of the rows depend on the shape alone. Each is added up downwards, then the parts in
  // order. The partial sums lie in the workspace, the first ones before the second.
  static KernelPointer columns(const Context& context, std::int64_t rows, std::int64_t columns,
                               std::int64_t bytes, int operand_count, auto make) {
    constexpr std::int64_t bytes_a_part = 256 * 1024;
    const std::int64_t parts = std::clamp<std::int64_t>(rows * columns * bytes / bytes_a_part, 1,
                                                        std::clamp<std::int64_t>(rows, 1, 64));
    return make_kernel(
        [=, threads = context.threads](void* const* operands) {
          const auto body = make(operands);
          double* const partial = at<double>(operands, operand_count);
          for_rows(threads, parts, rows * columns * bytes / parts, [=](std::int64_t part) {
            double* const first = partial + 2 * part * columns;
            double* const second = first + columns;
            std::fill_n(first, 2 * columns, 0.0);
            const Range range = block_range(rows, static_cast<int>(parts), static_cast<int>(part));
            for (std::int64_t row = range.begin; row < range.end; ++row) {
              const auto of_row = body.row(row);
#pragma omp simd
              for (std::int64_t j = 0; j < columns; ++j) {
                const PairOfSums terms = of_row(j, row * columns + j);
                first[j] += terms.first;
                second[j] += terms.second;
              }
            }
          });
          for (std::int64_t j = 0; j < columns; ++j) {
            PairOfSums sums{0, 0};
            for (std::int64_t part = 0; part < parts; ++part) {
              const double* const first = partial + 2 * part * columns;
              sums = sums + PairOfSums{first[j], first[columns + j]};
            }
            body.finish(j, sums);
          }
        },
        2 * parts * columns * static_cast<std::int64_t>(sizeof(double)));
  }

  // A tile of the inner dimension stays in registers or in the first cache while the middle one
  // passes by.
  static KernelPointer middle(const Context& context, const MiddleExtents& extents, auto make) {
    return make_kernel([=, threads = context.threads](void* const* operands) {
      const auto body = make(operands);
      using Fold = typename std::remove_const_t<decltype(body)>::Fold;
      if (std::is_same_v<Fold, folds::Sum> && extents.inner == 1) {
        for_rows(threads, extents.outer, extents.middle * 4, [=](std::int64_t o) {
          body.finish(o, lane_fold<Fold>(extents.middle, [&](std::int64_t i) {
                        return body.term(o, o * extents.middle + i);
                      }));
        });
        return;
      }
      for_tiles(threads, extents, 4, [=](std::int64_t length, std::int64_t of, std::int64_t from) {
        const auto own = body;
        typename Fold::Value values[tile];
        std::fill_n(values, tile, Fold::identity());
        for (std::int64_t i = 0; i < extents.middle; ++i, from += extents.inner) {
#pragma omp simd
          for (std::int64_t j = 0; j < length; ++j) {
            values[j] = Fold::combine(values[j], own.term(of + j, from + j));
          }
        }
        for (std::int64_t j = 0; j < length; ++j) own.finish(of + j, values[j]);
      });
    });
  }
  static KernelPointer spread(const Context& context, const MiddleExtents& extents,
                              std::int64_t bytes, auto make) {
    return make_kernel([=, threads = context.threads](void* const* operands) {
      const auto body = make(operands);
      for_tiles(threads, extents, bytes,
                [=](std::int64_t length, std::int64_t of, std::int64_t to) {
                  decltype(body.share(of)) shares[tile];
                  for (std::int64_t j = 0; j < length; ++j) shares[j] = body.share(of + j);
                  for (std::int64_t i = 0; i < extents.middle; ++i, to += extents.inner) {
#pragma omp simd
                    for (std::int64_t j = 0; j < length; ++j) body(to + j, of + j, shares[j]);
                  }
                });
    });
  }

 private:
  static constexpr std::int64_t tile = 64;
  /// body(length, first result, its first element) for tiles of the inner dimension.
  template <class Body>
  static void for_tiles(int threads, const MiddleExtents& extents, std::int64_t bytes,
                        const Body& body) {
    const std::int64_t inner = extents.inner, middle = extents.middle;
    for_rows(threads, extents.outer, middle * inner * bytes, [&](std::int64_t o) {
      for (std::int64_t j = 0; j < inner; j += tile) {
        body(std::min(tile, inner - j), o * inner + j, o * middle * inner + j);
      }
    });
  }
};

}  // namespace meshwork::cpu

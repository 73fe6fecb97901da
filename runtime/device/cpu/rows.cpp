// Kernels on rows and columns: sums, maxima, and the parts of softmax. Sums are formed in double.
//
// They are bound by memory traffic but for the exponential; a softmax over ten classes is so small
// that calls and loop ends are what it costs.
#include <limits>

#include "runtime/device/cpu/loops.h"
#include "runtime/device/cpu/vector_math.h"
#include "runtime/device/narrowing.h"

namespace meshwork::cpu {

namespace {

constexpr std::int64_t columns_a_tile = 64;
constexpr std::int64_t rows_a_part = 512;

double wide(float x) {
  return static_cast<double>(x);
}
double wide(std::uint16_t x) {
  return static_cast<double>(widened(x));
}

/// sums[0 .. columns) = the sums over rows [begin, end) of `columns` <= columns_a_tile columns.
/// `Stored` is float, or bfloat16's bits.
template <class Stored>
void tile_sum(const Stored* x, std::int64_t stride, Range rows, std::int64_t columns, double* sums) {
  double totals[columns_a_tile] = {};
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const Stored* from = x + row * stride;
#pragma omp simd
    for (std::int64_t j = 0; j < columns; ++j) totals[j] += wide(from[j]);
  }
  std::copy_n(totals, columns, sums);
}

// The rows are cut into parts that depend on their number alone; each part and tile of columns is
// added up downwards, then the parts are added in order. The partial sums lie in the workspace.
template <class Stored>
KernelPointer column_sum(const ColumnSumSpec& spec, const Context& context) {
  const std::int64_t rows = spec.rows, columns = spec.columns;
  if (columns == 0) return make_kernel([](void* const*) {});
  const std::int64_t parts = std::clamp<std::int64_t>(rows / rows_a_part, 1, 64);
  const std::int64_t tiles = (columns + columns_a_tile - 1) / columns_a_tile;
  const auto body = [=, threads = context.threads](void* const* operands) {
    const Stored* x = at<const Stored>(operands, 0);
    float* s = at(operands, 1);
    double* partial = at<double>(operands, 2);
    const std::int64_t tasks = parts * tiles;
    for_rows(threads, tasks, rows * columns * 4 / tasks, [=](std::int64_t task) {
      const std::int64_t part = task / tiles, first = task % tiles * columns_a_tile;
      tile_sum(x + first, columns, block_range(rows, parts, part),
               std::min(columns_a_tile, columns - first), partial + part * columns + first);
    });
    for (std::int64_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (std::int64_t part = 0; part < parts; ++part) sum += partial[part * columns + j];
      s[j] = static_cast<float>(sum);
    }
  };
  return make_kernel(body, parts * columns * static_cast<std::int64_t>(sizeof(double)));
}

}  // namespace

KernelPointer compile(const ColumnSumSpec& spec, const Context& context) {
  return column_sum<float>(spec, context);
}

KernelPointer compile_narrow(const ColumnSumSpec& spec, const Context& context) {
  return column_sum<std::uint16_t>(spec, context);
}

KernelPointer compile(const RowMaximumSpec& spec, const Context& context) {
  return make_kernel([=, columns = spec.columns, threads = context.threads](void* const* operands) {
    const float* x = at(operands, 0);
    float* m = at(operands, 1);
    for_rows(threads, spec.rows, columns * 4, [=](std::int64_t row) {
      // A NaN is taken when it comes, and then stays, as nothing is greater than it.
      const auto greater = [](float value, float best) {
        return value > best || value != value ? value : best;
      };
      constexpr int lanes = 16;
      float best[lanes];
      std::fill_n(best, lanes, -std::numeric_limits<float>::infinity());
      const float* from = x + row * columns;
      std::int64_t j = 0;
      for (; j + lanes <= columns; j += lanes) {
#pragma omp simd
        for (int lane = 0; lane < lanes; ++lane) {
          best[lane] = greater(from[j + lane], best[lane]);
        }
      }
      for (; j < columns; ++j) best[0] = greater(from[j], best[0]);
      for (int lane = 1; lane < lanes; ++lane) best[0] = greater(best[lane], best[0]);
      m[row] = best[0];
    });
  });
}

KernelPointer compile(const RowExponentialSpec& spec, const Context& context) {
  return make_kernel([=, columns = spec.columns, threads = context.threads](void* const* operands) {
    const float* x = at(operands, 0);
    const float* m = at(operands, 1);
    float* e = at(operands, 2);
    float* s = at(operands, 3);
    for_rows(threads, spec.rows, columns * 16, [=](std::int64_t row) {
      const float* from = x + row * columns;
      float* to = e + row * columns;
      const float maximum = m[row];
#pragma omp simd
      for (std::int64_t j = 0; j < columns; ++j) to[j] = vector_exp(from[j] - maximum);
      s[row] = static_cast<float>(lane_sum(0, columns, [=](std::int64_t j) { return to[j]; }));
    });
  });
}

KernelPointer compile(const RowDivideSpec& spec, const Context& context) {
  return make_kernel([=, columns = spec.columns, threads = context.threads](void* const* operands) {
    const float* e = at(operands, 0);
    const float* s = at(operands, 1);
    float* y = at(operands, 2);
    for_rows(threads, spec.rows, columns * 8, [=](std::int64_t row) {
      const float* from = e + row * columns;
      float* to = y + row * columns;
      const float divisor = s[row];
#pragma omp simd
      for (std::int64_t j = 0; j < columns; ++j) to[j] = from[j] / divisor;
    });
  });
}

KernelPointer compile(const RowSumSpec& spec, const Context& context) {
  return make_kernel([=, columns = spec.columns, threads = context.threads](void* const* operands) {
    const float* x = at(operands, 0);
    float* s = at(operands, 1);
    for_rows(threads, spec.rows, columns * 4, [=](std::int64_t row) {
      const float* from = x + row * columns;
      s[row] = static_cast<float>(lane_sum(0, columns, [=](std::int64_t j) { return from[j]; }));
    });
  });
}

KernelPointer compile(const RowDotSpec& spec, const Context& context) {
  return make_kernel([=, columns = spec.columns, threads = context.threads](void* const* operands) {
    const float* a = at(operands, 0);
    const float* b = at(operands, 1);
    float* r = at(operands, 2);
    for_rows(threads, spec.rows, columns * 8, [=](std::int64_t row) {
      const float* left = a + row * columns;
      const float* right = b + row * columns;
      r[row] = static_cast<float>(lane_sum(0, columns, [=](std::int64_t j) {
        return static_cast<double>(left[j]) * static_cast<double>(right[j]);
      }));
    });
  });
}

KernelPointer compile(const SoftmaxGradientSpec& spec, const Context& context) {
  return make_kernel([=, columns = spec.columns, threads = context.threads](void* const* operands) {
    const float* y = at(operands, 0);
    const float* dy = at(operands, 1);
    const float* r = at(operands, 2);
    float* dx = at(operands, 3);
    for_rows(threads, spec.rows, columns * 12, [=](std::int64_t row) {
      const std::int64_t first = row * columns;
      const float dot = r[row];
#pragma omp simd
      for (std::int64_t i = first; i < first + columns; ++i) dx[i] = y[i] * (dy[i] - dot);
    });
  });
}

}  // namespace meshwork::cpu

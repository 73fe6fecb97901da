// Sums over rows, and softmax of rows that are whole. Sums are formed in double.
//
// They are bound by memory traffic but for the exponential; a softmax over ten classes is so small
// that calls and loop ends are what it costs, and goes by tiles.
#include "runtime/device/bodies/rows.h"
#include "runtime/device/cpu/body_loops.h"
#include "runtime/device/cpu/row_tiles.h"
#include "runtime/device/kernels/products.h"

namespace meshwork::cpu {

namespace {

constexpr std::int64_t columns_a_tile = 64;
constexpr std::int64_t rows_a_part = 512;

/// sums[0 .. columns) = the sums over rows [begin, end) of `columns` <= columns_a_tile columns.
void tile_sum(const float* x, std::int64_t stride, Range rows, std::int64_t columns, double* sums) {
  double totals[columns_a_tile] = {};
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const float* from = x + row * stride;
#pragma omp simd
    for (std::int64_t j = 0; j < columns; ++j) totals[j] += static_cast<double>(from[j]);
  }
  std::copy_n(totals, columns, sums);
}

// The rows are cut into parts that depend on their number alone; each part and tile of columns is
// added up downwards, then the parts are added in order. The partial sums lie in the workspace.
KernelPointer compile(const ColumnSumSpec& spec, const Context& context) {
  const std::int64_t rows = spec.rows, columns = spec.columns;
  if (columns == 0) return make_kernel([](void* const*) {});
  const std::int64_t parts = std::clamp<std::int64_t>(rows / rows_a_part, 1, 64);
  const std::int64_t tiles = (columns + columns_a_tile - 1) / columns_a_tile;
  const auto body = [=, threads = context.threads](void* const* operands) {
    const float* x = at(operands, 0);
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

// The sums of a row's columns, in double and in the order of `lane_sum`.
template <class Term>
TileRow<> tile_sums(std::int64_t columns, const Term& term) {
  TileRow<double> sums{};
  for (std::int64_t j = 0; j < columns; ++j) {
#pragma omp simd
    for (int row = 0; row < tile_rows; ++row) sums[row] += term(j, row);
  }
  TileRow<> narrow;
#pragma omp simd
  for (int row = 0; row < tile_rows; ++row) narrow[row] = static_cast<float>(sums[row]);
  return narrow;
}

void softmax_tile(const float* x, float* y, const TileAt& at) {
  Tile tile;
  load(tile, x, at);
  const TileRow<> m = maxima(tile, at.columns);
  for (std::int64_t j = 0; j < at.columns; ++j) {
#pragma omp simd
    for (int row = 0; row < tile_rows; ++row)
      tile[j][row] = vector_exp_to_one(tile[j][row] - m[row]);
  }
  const TileRow<> sums = tile_sums(
      at.columns, [&](std::int64_t j, int row) { return static_cast<double>(tile[j][row]); });
  for (std::int64_t j = 0; j < at.columns; ++j) {
#pragma omp simd
    for (int row = 0; row < tile_rows; ++row) tile[j][row] /= sums[row];
  }
  store(tile, y, at);
}

void softmax_row(const float* x, float* y, std::int64_t columns) {
  const float m = row_maximum(x, columns);
#pragma omp simd
  for (std::int64_t j = 0; j < columns; ++j) y[j] = vector_exp_to_one(x[j] - m);
  const auto sum = static_cast<float>(lane_sum(0, columns, [=](std::int64_t j) { return y[j]; }));
#pragma omp simd
  for (std::int64_t j = 0; j < columns; ++j) y[j] /= sum;
}

void softmax_gradient_tile(const float* y, const float* dy, float* dx, const TileAt& at) {
  Tile values, gradients;
  load(values, y, at);
  load(gradients, dy, at);
  const TileRow<> dots = tile_sums(at.columns, [&](std::int64_t j, int row) {
    return static_cast<double>(values[j][row]) * static_cast<double>(gradients[j][row]);
  });
  for (std::int64_t j = 0; j < at.columns; ++j) {
#pragma omp simd
    for (int row = 0; row < tile_rows; ++row) {
      gradients[j][row] = values[j][row] * (gradients[j][row] - dots[row]);
    }
  }
  store(gradients, dx, at);
}

void softmax_gradient_row(const float* y, const float* dy, float* dx, std::int64_t columns) {
  const auto dot = static_cast<float>(lane_sum(0, columns, [=](std::int64_t j) {
    return static_cast<double>(y[j]) * static_cast<double>(dy[j]);
  }));
#pragma omp simd
  for (std::int64_t j = 0; j < columns; ++j) dx[j] = y[j] * (dy[j] - dot);
}

KernelPointer compile(const SoftmaxGradientSpec& spec, const Context& context) {
  if (!spec.whole) return bodies::softmax_gradient<Loops>(spec, context);
  return make_kernel([=, columns = spec.columns, threads = context.threads](void* const* operands) {
    const float* y = at(operands, 0);
    const float* dy = at(operands, 1);
    float* dx = at(operands, 2);
    if (columns <= tile_columns) {
      for_tiles(threads, spec.rows, columns, columns * 12,
                [=](const TileAt& at) { softmax_gradient_tile(y, dy, dx, at); });
      return;
    }
    for_rows(threads, spec.rows, columns * 12, [=](std::int64_t row) {
      const std::int64_t first = row * columns;
      softmax_gradient_row(y + first, dy + first, dx + first, columns);
    });
  });
}

KernelPointer compile(const SoftmaxSpec& spec, const Context& context) {
  return make_kernel([=, columns = spec.columns, threads = context.threads](void* const* operands) {
    const float* x = at(operands, 0);
    float* y = at(operands, 1);
    if (columns <= tile_columns) {
      for_tiles(threads, spec.rows, columns, columns * 16,
                [=](const TileAt& at) { softmax_tile(x, y, at); });
      return;
    }
    for_rows(threads, spec.rows, columns * 16,
             [=](std::int64_t row) { softmax_row(x + row * columns, y + row * columns, columns); });
  });
}

}  // namespace

void add_rows(Kernels& kernels) {
  kernels.add<ColumnSumSpec, SoftmaxGradientSpec, SoftmaxSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cpu

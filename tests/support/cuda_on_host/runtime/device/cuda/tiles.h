// The products of runtime/device/cuda/tiles.h, run on the host: same interface. A block has one warp
// of one lane, which holds whole tiles. Factors are rounded as on the GPU; sums are plain.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/device/cuda/launch.h"
#include "runtime/device/kernels/precision.h"
#include "runtime/device/narrowing.h"

namespace meshwork::cuda {

[[nodiscard]] inline float power_of_2(float x) {
  return exp2f(x);
}

constexpr int stage_columns = 64;
constexpr int warp_rows = 16;

class Block {
 public:
  static constexpr int warps = 1;

  explicit Block(unsigned char* shared) : shared_(shared) {}
  [[nodiscard]] static int warp() { return 0; }
  static void synchronize() {}
  template <int count, class Body>
  static void each(const Body& body) {
    for (int i = count; i-- > 0;) body(i);
  }
  template <class T>
  [[nodiscard]] T* shared(int byte) const {
    return reinterpret_cast<T*>(shared_ + byte);
  }

 private:
  unsigned char* shared_;
};

struct Place {
  int row, column, slot;
};

class Rows {
 public:
  explicit Rows(float value) { values_.fill(value); }
  [[nodiscard]] float& operator[](const Place& at) {
    return values_.at(static_cast<std::size_t>(at.slot));
  }
  template <class Fold>
  void fold() {}
  template <class Body>
  static void each(const Body& body) {
    for (int row = 0; row < warp_rows; ++row) body(Place{row, 0, row});
  }
  [[nodiscard]] static bool leads() { return true; }

 private:
  std::array<float, static_cast<std::size_t>(warp_rows)> values_;
};

template <int column_count>
struct Tile {
  static constexpr int columns = column_count;
  std::array<float, static_cast<std::size_t>(warp_rows* columns)> values{};

  [[nodiscard]] float& at(int row, int column) {
    return values.at(static_cast<std::size_t>(row * columns + column));
  }
  [[nodiscard]] float at(int row, int column) const {
    return values.at(static_cast<std::size_t>(row * columns + column));
  }
  template <class Body, class... Others>
  void each(const Body& body, Others&... others) {
    for (int row = warp_rows; row-- > 0;) {
      for (int column = columns; column-- > 0;) {
        body(Place{row, column, row}, at(row, column), others.at(row, column)...);
      }
    }
  }
};

/// `x` as a factor: the nearest number of that precision.
template <Precision precision>
[[nodiscard]] float as_factor(float x) {
  if constexpr (precision == Precision::bfloat16) return rounded_to_bfloat16(x);
  if constexpr (precision == Precision::tf32) {
    constexpr std::uint32_t half = 0x1000U, kept = 0xffffe000U;
    return std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) + half) & kept);
  }
  return x;
}

template <Precision precision, int rows>
class Stage {
 public:
  using Element = float;
  static constexpr int stride = stage_columns;
  static constexpr int bytes = rows * stride * static_cast<int>(sizeof(Element));

  explicit Stage(Element* elements) : elements_(elements) {}
  using Coming = std::vector<float>;
  static void fetch(Coming& coming, const float* from, int row_stride, int rows_here,
                    int columns_here) {
    coming.assign(static_cast<std::size_t>(rows * stride), 0.0f);
    for (int row = 0; row < std::min(rows, rows_here); ++row) {
      const float* const begin = from + static_cast<std::int64_t>(row) * row_stride;
      std::copy_n(begin, std::min(stage_columns, columns_here), coming.begin() + row * stride);
    }
  }
  void store(const Coming& coming) {
    std::ranges::transform(coming, elements_, as_factor<precision>);
  }
  [[nodiscard]] const Element* at(int row, int column) const {
    return elements_ + row * stride + column;
  }

 private:
  Element* elements_;
};

template <Precision precision, int columns, int a_rows, int b_rows>
void add_product_transposed(Tile<columns>& c, const Stage<precision, a_rows>& a, int row,
                            const Stage<precision, b_rows>& b) {
  static_assert(columns <= b_rows, "a column of the result is a row of b");
  c.each([&](const Place& at, float& sum) {
    for (int k = 0; k < stage_columns; ++k) sum += *a.at(row + at.row, k) * *b.at(at.column, k);
  });
}

template <Precision precision, int columns, int terms, int b_rows>
void add_product(Tile<columns>& c, const Tile<terms>& a, const Stage<precision, b_rows>& b) {
  static_assert(terms <= b_rows, "a column of a meets a row of b");
  c.each([&](const Place& at, float& sum) {
    for (int k = 0; k < terms; ++k) {
      sum += as_factor<precision>(a.at(at.row, k)) * *b.at(k, at.column);
    }
  });
}

/// Tasks last to first, in memory that holds what no task may count on.
template <class Body>
void for_blocks(const Launcher&, std::int64_t tasks, const Body& body) {
  std::vector<std::uint32_t> shared(Body::shared_bytes / sizeof(std::uint32_t) + 1);
  for (std::int64_t task = tasks; task-- > 0;) {
    shared.assign(shared.size(), 0x7fc00000U);  // NaN
    body(Block(reinterpret_cast<unsigned char*>(shared.data())), task);
  }
}

}  // namespace meshwork::cuda

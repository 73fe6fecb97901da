// Products of small matrices, by the warps of a block, on tensor cores.
//
//   Stage   a matrix in the block's shared memory, `stage_columns` wide and padded with zeros, in
//           the numbers that products take in
//   Tile    a matrix of 16 rows in the registers of a warp: a result, or a factor
//   Rows    a number for each row of a tile
//
//   add_product_transposed(c, a, row, b)   c += a b^T, where c has the rows of a from `row` on
//   add_product(c, a, b)                   c += a b, where a is a tile
//
// A lane holds four elements of every 8 columns of a tile. With g = lane / 4 and t = lane % 4 they
// are (g, 2 t), (g, 2 t + 1), (g + 8, 2 t) and (g + 8, 2 t + 1). That is where the instructions
// `mma` of CUDA's PTX leave results (PTX ISA 8.0, 9.7.13). Four lanes share a row.
//
// float32 comes from three products of tf32. Each factor is cut into its upper 11 significant bits
// and the rest; the product of both rests is left out (CUTLASS's OpMultiplyAddFastF32 does alike).
// What is missing is below 2^-19 of the product.
//
// Kernels are objects whose operator()(block, task) a block calls. Their members are plain values,
// copied to the device with the launch. tests/support/cuda_on_host holds the same as loops, a block
// of one warp of one lane.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "runtime/device/cuda/launch.h"
#include "runtime/device/kernels/precision.h"

namespace meshwork::cuda {

/// 2^x, below float32's normal numbers 0.
[[nodiscard]] __device__ inline float power_of_2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

constexpr int stage_columns = 64;
constexpr int warp_rows = 16;  // of a tile

/// The threads that share a stage.
class Block {
 public:
  static constexpr int warps = 4;
  static constexpr int threads = warps * 32;

  __device__ explicit Block(unsigned char* shared) : shared_(shared) {}
  /// Which of the warps calls.
  [[nodiscard]] __device__ static int warp() { return static_cast<int>(threadIdx.x) / 32; }
  __device__ static void synchronize() { __syncthreads(); }
  /// body(i) for each i of `count`, a thread each.
  template <int count, class Body>
  __device__ static void each(const Body& body) {
    static_assert(count <= threads);
    if (static_cast<int>(threadIdx.x) < count) body(static_cast<int>(threadIdx.x));
  }
  /// The block's memory from this byte on.
  template <class T>
  [[nodiscard]] __device__ T* shared(int byte) const {
    return reinterpret_cast<T*>(shared_ + byte);
  }

 private:
  unsigned char* shared_;
};

/// Where an element of a tile stands. `slot`: its row's among the rows that the lane holds.
struct Place {
  int row, column, slot;
};

class Rows {
 public:
  __device__ explicit Rows(float value) {
    for (float& each : values_) each = value;
  }
  [[nodiscard]] __device__ float& operator[](const Place& at) { return values_[at.slot]; }
  /// Combines what the lanes of a row hold; each of them gets it.
  template <class Fold>
  __device__ void fold() {
#pragma unroll
    for (float& value : values_) {
      value = Fold::combine(value, __shfl_xor_sync(all_lanes, value, 1));
      value = Fold::combine(value, __shfl_xor_sync(all_lanes, value, 2));
    }
  }
  /// body(place) of each row that the lane holds; its column is 0.
  template <class Body>
  __device__ static void each(const Body& body) {
#pragma unroll
    for (int slot = 0; slot < 2; ++slot) {
      body(Place{slot * 8 + static_cast<int>(threadIdx.x) % 32 / 4, 0, slot});
    }
  }
  /// Whether the lane is the one of a row's that writes.
  [[nodiscard]] __device__ static bool leads() {
    return threadIdx.x % 4 == 0;
  }

 private:
  static constexpr unsigned all_lanes = 0xffffffffU;
  float values_[2];
};

template <int column_count>
struct Tile {
  static constexpr int columns = column_count;
  float values[columns / 8][4] = {};

  /// body(place, element, those of others of that shape) for each element that the lane holds.
  template <class Body, class... Others>
  __device__ void each(const Body& body, Others&... others) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int group = 0; group < columns / 8; ++group) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        body(Place{i / 2 * 8 + lane / 4, group * 8 + lane % 4 * 2 + i % 2, i / 2}, values[group][i],
             others.values[group][i]...);
      }
    }
  }
};

namespace tensor_cores {

[[nodiscard]] __device__ inline std::uint32_t pair(float first, float second) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(first, second);
  return *reinterpret_cast<const std::uint32_t*>(&both);
}

}  // namespace tensor_cores

/// `rows` rows in shared memory. Its columns are padded so that what lanes read at a time lies in
/// banks of their own.
template <Precision precision, int rows>
class Stage {
  static constexpr bool narrow = precision == Precision::bfloat16;
  static constexpr int quads_a_row = stage_columns / 4;
  static constexpr int rows_a_turn = Block::threads / quads_a_row;

 public:
  using Element = std::conditional_t<narrow, __nv_bfloat16, float>;
  static constexpr int stride = stage_columns + (narrow ? 8 : 4);
  static constexpr int bytes = rows * stride * static_cast<int>(sizeof(Element));

  __device__ explicit Stage(Element* elements) : elements_(elements) {}

  /// Rows on their way here, in registers.
  struct Coming {
    float4 quads[rows / rows_a_turn];
  };
  /// Begins to read `rows_here` rows of `columns_here` columns, a row every `row_stride` floats.
  __device__ static void fetch(Coming& coming, const float* from, int row_stride, int rows_here,
                               int columns_here) {
    const int column = first_column();
    const bool in_quads = row_stride % 4 == 0 && columns_here % 4 == 0 &&
                          reinterpret_cast<std::uintptr_t>(from) % sizeof(float4) == 0;
    const float* at = from + static_cast<std::int64_t>(first_row()) * row_stride + column;
    int row = first_row();
#pragma unroll
    for (float4& x : coming.quads) {
      const bool here = row < rows_here;
      x = {0, 0, 0, 0};
      if (in_quads) {
        if (here && column < columns_here) x = __ldg(reinterpret_cast<const float4*>(at));
      } else if (here) {
        if (column < columns_here) x.x = at[0];
        if (column + 1 < columns_here) x.y = at[1];
        if (column + 2 < columns_here) x.z = at[2];
        if (column + 3 < columns_here) x.w = at[3];
      }
      row += rows_a_turn, at += rows_a_turn * row_stride;
    }
  }
  /// Fills it with them. Nobody reads it.
  __device__ void store(const Coming& coming) {
    Element* to = elements_ + first_row() * stride + first_column();
#pragma unroll
    for (const float4& x : coming.quads) {
      if constexpr (narrow) {
        *reinterpret_cast<uint2*>(to) = {tensor_cores::pair(x.x, x.y),
                                         tensor_cores::pair(x.z, x.w)};
      } else {
        *reinterpret_cast<float4*>(to) = x;
      }
      to += rows_a_turn * stride;
    }
  }
  [[nodiscard]] __device__ const Element* at(int row, int column) const {
    return elements_ + row * stride + column;
  }

 private:
  [[nodiscard]] __device__ static int first_row() {
    return static_cast<int>(threadIdx.x) / quads_a_row;
  }
  [[nodiscard]] __device__ static int first_column() {
    return static_cast<int>(threadIdx.x) % quads_a_row * 4;
  }

  Element* elements_;
};

namespace tensor_cores {

[[nodiscard]] __device__ inline int lane() {
  return static_cast<int>(threadIdx.x) % 32;
}

struct Narrow {};
struct Wide {};

// c (16, 8) += a (16, terms) b (terms, 8), terms 16 of bfloat16 and 8 of tf32.
__device__ inline void multiply(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                std::uint32_t b1, Narrow) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline void multiply(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                std::uint32_t b1, Wide) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four matrices of 8 x 8 bfloat16: row lane % 8 of matrix lane / 8 begins at `row`. A lane gets of
// each the elements (lane / 4, lane % 4 * 2) and its neighbour, or those of the transposed ones.
template <bool transposed>
__device__ inline void load(std::uint32_t (&to)[4], const __nv_bfloat16* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
  }
}

// A float32 as the numbers that tf32's products take in: the nearest one, or the upper bits and the
// rest, which the product cuts off itself.
template <Precision precision>
struct Split {
  std::uint32_t upper, rest = 0;
  __device__ explicit Split(float x) {
    if constexpr (precision == Precision::tf32) {
      asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(upper) : "f"(x));
    } else {
      constexpr std::uint32_t upper_bits = 0xffffe000U;
      upper = __float_as_uint(x) & upper_bits;
      rest = __float_as_uint(x - __uint_as_float(upper));
    }
  }
};

template <Precision precision>
struct SplitFactor {
  std::uint32_t upper[4], rest[4];
  __device__ SplitFactor(float a0, float a1, float a2, float a3) {
    const float values[4] = {a0, a1, a2, a3};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Split<precision> split(values[i]);
      upper[i] = split.upper, rest[i] = split.rest;
    }
  }
  __device__ void multiply(float (&c)[4], const Split<precision>& b0,
                           const Split<precision>& b1) const {
    if constexpr (precision == Precision::float32) {
      tensor_cores::multiply(c, rest, b0.upper, b1.upper, Wide{});
      tensor_cores::multiply(c, upper, b0.rest, b1.rest, Wide{});
    }
    tensor_cores::multiply(c, upper, b0.upper, b1.upper, Wide{});
  }
};

}  // namespace tensor_cores

template <Precision precision, int columns, int a_rows, int b_rows>
__device__ void add_product_transposed(Tile<columns>& c, const Stage<precision, a_rows>& a, int row,
                                       const Stage<precision, b_rows>& b) {
  static_assert(columns <= b_rows, "a column of the result is a row of b");
  using namespace tensor_cores;
  const int l = lane();
  if constexpr (precision == Precision::bfloat16) {
#pragma unroll
    for (int k = 0; k < stage_columns; k += 16) {
      std::uint32_t first[4];
      load<false>(first, a.at(row + l % 16, k + l / 16 * 8));
#pragma unroll
      for (int n = 0; n < columns; n += 16) {
        std::uint32_t second[4];
        load<false>(second, b.at(n + l / 16 * 8 + l % 8, k + l / 8 % 2 * 8));
        multiply(c.values[n / 8], first, second[0], second[1], Narrow{});
        multiply(c.values[n / 8 + 1], first, second[2], second[3], Narrow{});
      }
    }
  } else {
    const int g = l / 4, t = l % 4;
#pragma unroll 2
    for (int k = 0; k < stage_columns; k += 8) {
      const float *const upper = a.at(row + g, k + t), *const lower = upper + 8 * a.stride;
      const SplitFactor<precision> first(upper[0], lower[0], upper[4], lower[4]);
#pragma unroll
      for (int n = 0; n < columns; n += 8) {
        const float* const at = b.at(n + g, k + t);
        first.multiply(c.values[n / 8], Split<precision>(at[0]), Split<precision>(at[4]));
      }
    }
  }
}

template <Precision precision, int columns, int terms, int b_rows>
__device__ void add_product(Tile<columns>& c, const Tile<terms>& a,
                            const Stage<precision, b_rows>& b) {
  static_assert(terms <= b_rows, "a column of a meets a row of b");
  using namespace tensor_cores;
  const int l = lane();
  if constexpr (precision == Precision::bfloat16) {
#pragma unroll
    for (int k = 0; k < terms; k += 16) {
      const auto &left = a.values[k / 8], &right = a.values[k / 8 + 1];
      const std::uint32_t first[4] = {pair(left[0], left[1]), pair(left[2], left[3]),
                                      pair(right[0], right[1]), pair(right[2], right[3])};
#pragma unroll
      for (int n = 0; n < columns; n += 16) {
        std::uint32_t second[4];
        load<true>(second, b.at(k + l / 8 % 2 * 8 + l % 8, n + l / 16 * 8));
        multiply(c.values[n / 8], first, second[0], second[1], Narrow{});
        multiply(c.values[n / 8 + 1], first, second[2], second[3], Narrow{});
      }
    }
  } else {
    // Its terms in another order: those that a lane holds of a tile are its own in the product.
    const int g = l / 4, t = l % 4;
#pragma unroll
    for (int k = 0; k < terms; k += 8) {
      const auto& of = a.values[k / 8];
      const SplitFactor<precision> first(of[0], of[2], of[1], of[3]);
#pragma unroll
      for (int n = 0; n < columns; n += 8) {
        const float* const at = b.at(k + 2 * t, n + g);
        first.multiply(c.values[n / 8], Split<precision>(at[0]), Split<precision>(at[b.stride]));
      }
    }
  }
}

namespace launching {

template <class Body>
__global__ void __launch_bounds__(Block::threads) blocks(Body body) {
  extern __shared__ __align__(16) unsigned char shared[];
  body(Block(shared), static_cast<std::int64_t>(blockIdx.x));
}

}  // namespace launching

/// body(block, task) for each of `tasks`, by blocks with Body::shared_bytes of shared memory each.
template <class Body>
void for_blocks(const Launcher& launcher, std::int64_t tasks, const Body& body) {
  if (tasks <= 0) return;
  const auto kernel = launching::blocks<Body>;
  // A failure is found, and cleared, by the check behind the launch.
  static_cast<void>(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         Body::shared_bytes));
  kernel<<<static_cast<unsigned>(tasks), Block::threads, Body::shared_bytes,
           launching::stream_of(launcher)>>>(body);
  check_launch(launcher);
}

}  // namespace meshwork::cuda

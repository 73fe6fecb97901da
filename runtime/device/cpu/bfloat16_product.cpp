#include "runtime/device/cpu/bfloat16_product.h"

#include "collectives/error.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <array>

#include "runtime/device/cpu/loops.h"

// GCC 12 warns of its own intrinsics (PR 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
// What follows is compiled for the instructions, whatever the rest is compiled for.
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")

namespace meshwork::cpu {

namespace {

constexpr std::int64_t lanes = 16;        // float32, or pairs, of a vector
constexpr std::int64_t tile_rows = 8;     // of c
constexpr std::int64_t tile_vectors = 3;  // of c, side by side
constexpr std::int64_t tile_columns = lanes * tile_vectors;
constexpr std::int64_t block_depth = 256;  // elements of the inner dimension, at most
constexpr std::int64_t block_columns = 8 * tile_columns;
constexpr std::int64_t block_rows = 512;  // of a, that are multiplied with one panel after
                                          // the other
// c is written past the caches if it is larger than what they hold.
constexpr std::int64_t bytes_past_caches = std::int64_t{8} << 20;
// Below this many multiplications a thread costs more than it saves.
constexpr std::int64_t work_of_a_thread = 1 << 20;

using Pair = std::uint32_t;  // two bfloat16, the earlier one in the lower half

constexpr std::int64_t rounded_up(std::int64_t count, std::int64_t unit) {
  return (count + unit - 1) / unit * unit;
}

/// The first `count` lanes.
__mmask16 first_lanes(std::int64_t count) {
  return count >= lanes ? __mmask16{0xffff}
                        : static_cast<__mmask16>((1U << std::max<std::int64_t>(count, 0)) - 1);
}

// ---- packing ------------------------------------------------------------------------------------

/// `even` and `odd` are the same 16 columns of two neighbouring rows: their pairs, by column.
__m512i pairs_of_rows(__m512 even, __m512 odd) {
  const __m512i side_by_side =
      _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                       21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(side_by_side,
                                  reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(odd, even)));
}

/// The pairs of up to 32 neighbouring elements of a row, of which there are `count`.
__m512i pairs_of_row(const float* from, std::int64_t count) {
  return reinterpret_cast<__m512i>(
      _mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps(first_lanes(count - lanes), from + lanes),
                          _mm512_maskz_loadu_ps(first_lanes(count), from)));
}

/// Rows become columns.
void transpose(__m512i (&rows)[16]) {
  __m512i other[16];
  for (int i = 0; i < 16; i += 2) {
    other[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    other[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    rows[i] = _mm512_unpacklo_epi64(other[i], other[i + 2]);
    rows[i + 1] = _mm512_unpackhi_epi64(other[i], other[i + 2]);
    rows[i + 2] = _mm512_unpacklo_epi64(other[i + 1], other[i + 3]);
    rows[i + 3] = _mm512_unpackhi_epi64(other[i + 1], other[i + 3]);
  }
  // Now rows[4 g + c] has in its quarter q the elements of rows 4 g ... 4 g + 3 in column 4 q + c.
  for (int c = 0; c < 4; ++c) {
    const __m512i even_low = _mm512_shuffle_i32x4(rows[c], rows[4 + c], 0x88);
    const __m512i odd_low = _mm512_shuffle_i32x4(rows[c], rows[4 + c], 0xdd);
    const __m512i even_high = _mm512_shuffle_i32x4(rows[8 + c], rows[12 + c], 0x88);
    const __m512i odd_high = _mm512_shuffle_i32x4(rows[8 + c], rows[12 + c], 0xdd);
    other[c] = _mm512_shuffle_i32x4(even_low, even_high, 0x88);
    other[4 + c] = _mm512_shuffle_i32x4(odd_low, odd_high, 0x88);
    other[8 + c] = _mm512_shuffle_i32x4(even_low, even_high, 0xdd);
    other[12 + c] = _mm512_shuffle_i32x4(odd_low, odd_high, 0xdd);
  }
  for (int i = 0; i < 16; ++i) rows[i] = other[i];
}

void store_half(Pair* to, __m512i vector, bool upper) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(to),
                     upper ? _mm512_extracti64x4_epi64(vector, 1) : _mm512_castsi512_si256(vector));
}

/// The panels of a that begin at rows `first` and `first + 8` of op(a), of the block of the inner
/// dimension `depth`; a row that is not there is left as it is, or zero. `to` is the block's.
void pack_a(const Bfloat16Product& of, const float* a, Range depth, std::int64_t first, Pair* to) {
  const std::int64_t pairs = (depth.length() + 1) / 2;
  const std::int64_t rows = of.m - first;
  Pair* const upper_panel = to + (first + tile_rows) * pairs;
  to += first * pairs;
  if (of.transpose_a) {
    const __mmask16 there = first_lanes(rows);
    for (std::int64_t pair = 0; pair < pairs; ++pair) {
      const std::int64_t at = depth.begin + 2 * pair;
      const float* from = a + at * of.a_stride + first;
      const __m512 even = _mm512_maskz_loadu_ps(there, from);
      const __m512 odd =
          _mm512_maskz_loadu_ps(at + 1 < depth.end ? there : __mmask16{0}, from + of.a_stride);
      const __m512i both = pairs_of_rows(even, odd);
      store_half(to + pair * tile_rows, both, false);
      if (rows > tile_rows) store_half(upper_panel + pair * tile_rows, both, true);
    }
    return;
  }
  for (std::int64_t pair = 0; pair < pairs; pair += lanes) {
    __m512i vectors[16];
    for (std::int64_t row = 0; row < lanes; ++row) {
      const std::int64_t at = depth.begin + 2 * pair;
      vectors[row] = row < rows ? pairs_of_row(a + (first + row) * of.a_stride + at, depth.end - at)
                                : _mm512_setzero_si512();
    }
    transpose(vectors);
    for (std::int64_t p = 0; p < std::min(lanes, pairs - pair); ++p) {
      const __m512i both = vectors[p];
      store_half(to + (pair + p) * tile_rows, both, false);
      if (rows > tile_rows) store_half(upper_panel + (pair + p) * tile_rows, both, true);
    }
  }
}

/// How many vectors a panel of b has that begins at column `first` of `columns`.
std::int64_t vectors_of_panel(Range columns, std::int64_t first) {
  return std::min(tile_vectors, (columns.end - first + lanes - 1) / lanes);
}

/// A block of b.
void pack_b(const Bfloat16Product& of, const float* b, Range depth, Range columns, Pair* to) {
  const std::int64_t pairs = (depth.length() + 1) / 2;
  if (!of.transpose_b) {
    // Row by row, since that is how they lie in memory.
    for (std::int64_t pair = 0; pair < pairs; ++pair) {
      const std::int64_t at = depth.begin + 2 * pair;
      const float* from = b + at * of.b_stride;
      const std::int64_t next = at + 1 < depth.end ? of.b_stride : 0;
      for (std::int64_t first = columns.begin; first < columns.end; first += tile_columns) {
        const std::int64_t vectors = vectors_of_panel(columns, first);
        Pair* panel = to + (first - columns.begin) * pairs + pair * vectors * lanes;
        for (std::int64_t v = 0; v < vectors; ++v) {
          const std::int64_t column = first + v * lanes;
          const __mmask16 there = first_lanes(columns.end - column);
          const __m512 even = _mm512_maskz_loadu_ps(there, from + column);
          const __m512 odd =
              _mm512_maskz_loadu_ps(next > 0 ? there : __mmask16{0}, from + next + column);
          _mm512_store_si512(panel + v * lanes, pairs_of_rows(even, odd));
        }
      }
    }
    return;
  }
  for (std::int64_t column = columns.begin; column < columns.end; column += lanes) {
    const std::int64_t panel = (column - columns.begin) / tile_columns * tile_columns;
    const std::int64_t vectors = vectors_of_panel(columns, columns.begin + panel);
    Pair* const vector = to + panel * pairs + (column - columns.begin - panel);
    for (std::int64_t pair = 0; pair < pairs; pair += lanes) {
      const std::int64_t at = depth.begin + 2 * pair;
      __m512i rows[16];
      for (std::int64_t i = 0; i < lanes; ++i) {
        rows[i] = column + i < columns.end
                      ? pairs_of_row(b + (column + i) * of.b_stride + at, depth.end - at)
                      : _mm512_setzero_si512();
      }
      transpose(rows);
      for (std::int64_t p = 0; p < std::min(lanes, pairs - pair); ++p) {
        _mm512_store_si512(vector + (pair + p) * vectors * lanes, rows[p]);
      }
    }
  }
}

// ---- tiles --------------------------------------------------------------------------------------

/// Where a tile goes, and what is done to it.
struct Destination {
  float* c;
  std::int64_t stride;
  const float* bias;  // of its columns, or null
  bool add, relu, past_caches;
  __mmask16 last_vector;  // the columns of the last vector that there are
};

template <int rows, int vectors>
void multiply_tile(std::int64_t pairs, const Pair* a, const Pair* b, const Destination& to) {
  __m512 sums[rows][vectors];
  for (auto& row : sums) {
    for (__m512& sum : row) sum = _mm512_setzero_ps();
  }
  for (std::int64_t pair = 0; pair < pairs; ++pair) {
    __m512bh columns[vectors];
    for (int v = 0; v < vectors; ++v) {
      columns[v] = reinterpret_cast<__m512bh>(_mm512_load_si512(b + (pair * vectors + v) * lanes));
    }
    for (int row = 0; row < rows; ++row) {
      const __m512bh element = reinterpret_cast<__m512bh>(
          _mm512_set1_epi32(static_cast<int>(a[pair * tile_rows + row])));
      for (int v = 0; v < vectors; ++v) {
        sums[row][v] = _mm512_dpbf16_ps(sums[row][v], element, columns[v]);
      }
    }
  }
  for (int v = 0; v < vectors; ++v) {
    const __mmask16 there = v + 1 == vectors ? to.last_vector : __mmask16{0xffff};
    const __m512 bias = to.bias == nullptr ? _mm512_setzero_ps()
                                           : _mm512_maskz_loadu_ps(there, to.bias + v * lanes);
    for (int row = 0; row < rows; ++row) {
      float* const c = to.c + row * to.stride + v * lanes;
      __m512 sum = sums[row][v];
      if (to.add) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(there, c));
      if (to.bias != nullptr) sum = _mm512_add_ps(sum, bias);
      if (to.relu) sum = _mm512_max_ps(_mm512_setzero_ps(), sum);  // of NaN: the second
      if (to.past_caches) {
        _mm512_stream_ps(c, sum);
      } else {
        _mm512_mask_storeu_ps(c, there, sum);
      }
    }
  }
}

using Tile = void (*)(std::int64_t, const Pair*, const Pair*, const Destination&);

template <int vectors>
constexpr std::array<Tile, tile_rows> tiles_of_width{
    multiply_tile<1, vectors>, multiply_tile<2, vectors>, multiply_tile<3, vectors>,
    multiply_tile<4, vectors>, multiply_tile<5, vectors>, multiply_tile<6, vectors>,
    multiply_tile<7, vectors>, multiply_tile<8, vectors>};

Tile tile_for(std::int64_t rows, std::int64_t vectors) {
  constexpr std::array<const std::array<Tile, tile_rows>*, tile_vectors> by_width{
      &tiles_of_width<1>, &tiles_of_width<2>, &tiles_of_width<3>};
  return (*by_width[static_cast<std::size_t>(vectors - 1)])[static_cast<std::size_t>(
      std::min(rows, tile_rows) - 1)];
}

/// Asks for the rows of a matrix, line by line, a few at a time.
class Fetch {
 public:
  Fetch() = default;
  /// In `turns` turns.
  Fetch(const float* first, std::int64_t rows, std::int64_t columns, std::int64_t stride,
        std::int64_t turns)
      : row_(first), rows_(rows), lines_((columns + lanes - 1) / lanes), stride_(stride) {
    in_a_turn_ = (rows_ * lines_ + turns - 1) / turns;
  }
  void turn() {
    for (std::int64_t i = 0; i < in_a_turn_ && rows_ > 0; ++i) {
      _mm_prefetch(reinterpret_cast<const char*>(row_ + line_ * lanes), _MM_HINT_T1);
      if (++line_ == lines_) {
        line_ = 0;
        row_ += stride_;
        --rows_;
      }
    }
  }

 private:
  const float* row_ = nullptr;
  std::int64_t rows_ = 0, lines_ = 0, stride_ = 0, in_a_turn_ = 0, line_ = 0;
};

// ---- the product --------------------------------------------------------------------------------

/// How long the blocks of the inner dimension are: about equal, and of whole pairs.
std::int64_t depth_of_blocks(std::int64_t k) {
  const std::int64_t blocks = (k + block_depth - 1) / block_depth;
  return rounded_up((k + blocks - 1) / blocks, 2);
}

std::int64_t pairs_of_a(const Bfloat16Product& of) {
  return rounded_up(rounded_up(of.m, 2 * tile_rows) * rounded_up(of.k, 2) / 2, lanes);
}
std::int64_t pairs_of_b(const Bfloat16Product& of) {
  const std::int64_t columns = std::min(rounded_up(of.n, lanes), block_columns);
  return columns * (depth_of_blocks(of.k) / 2);
}

/// What one thread computes: some rows, which begin with a panel, and some columns of c.
struct Part {
  const Bfloat16Product& of;
  const float* b;
  const float* bias;
  float* c;
  Range rows, columns;
  const Pair* packed_a;
  Pair* packed_b;
  bool past_caches;
};

void multiply_block(const Part& part, Range depth, Range columns, Fetch& fetch) {
  const Bfloat16Product& of = part.of;
  const std::int64_t pairs = (depth.length() + 1) / 2;
  const Pair* const a = part.packed_a + depth.begin / 2 * rounded_up(of.m, 2 * tile_rows);
  const bool complete = depth.end == of.k;
  Destination to{.c = nullptr,
                 .stride = of.c_stride,
                 .bias = nullptr,
                 .add = of.accumulate || depth.begin > 0,
                 .relu = of.relu && complete,
                 .past_caches = part.past_caches,
                 .last_vector = 0};
  for (std::int64_t begin = part.rows.begin; begin < part.rows.end; begin += block_rows) {
    const std::int64_t end = std::min(begin + block_rows, part.rows.end);
    for (std::int64_t column = columns.begin; column < columns.end; column += tile_columns) {
      const std::int64_t vectors = vectors_of_panel(columns, column);
      to.last_vector = first_lanes(columns.end - column - (vectors - 1) * lanes);
      to.bias = part.bias != nullptr && complete ? part.bias + column : nullptr;
      const Pair* const panel = part.packed_b + (column - columns.begin) * pairs;
      for (std::int64_t row = begin; row < end; row += tile_rows) {
        fetch.turn();
        to.c = part.c + row * of.c_stride + column;
        tile_for(end - row, vectors)(pairs, a + row * pairs, panel, to);
      }
    }
  }
}

void multiply_part(const Part& part) {
  const Bfloat16Product& of = part.of;
  const std::int64_t depth = depth_of_blocks(of.k);
  const auto block_at = [](std::int64_t begin, std::int64_t length, std::int64_t end) {
    return Range{begin, std::min(begin + length, end)};
  };
  for (std::int64_t column = part.columns.begin; column < part.columns.end;
       column += block_columns) {
    const Range columns = block_at(column, block_columns, part.columns.end);
    const std::int64_t tiles = ((columns.length() + tile_columns - 1) / tile_columns) *
                               ((part.rows.length() + tile_rows - 1) / tile_rows);
    for (std::int64_t at = 0; at < of.k; at += depth) {
      const Range inner = block_at(at, depth, of.k);
      pack_b(of, part.b, inner, columns, part.packed_b);
      const bool deeper = inner.end < of.k;
      const Range next_inner = block_at(deeper ? inner.end : 0, depth, of.k);
      const Range next = deeper ? columns : block_at(columns.end, block_columns, part.columns.end);
      Fetch fetch;
      if (next.length() > 0) {
        const Range rows = of.transpose_b ? next : next_inner;
        const Range within = of.transpose_b ? next_inner : next;
        fetch = Fetch(part.b + rows.begin * of.b_stride + within.begin, rows.length(),
                      within.length(), of.b_stride, tiles);
      }
      multiply_block(part, inner, columns, fetch);
    }
  }
  if (part.past_caches) _mm_sfence();  // others may read c after what comes next
}

}  // namespace

bool has_bfloat16_instructions() {
  static const bool has =
      __builtin_cpu_supports("avx512bf16") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  return has;
}

std::int64_t workspace_bytes(const Bfloat16Product& of, int threads) {
  return static_cast<std::int64_t>(sizeof(Pair)) * (pairs_of_a(of) + threads * pairs_of_b(of));
}

void multiply(const Bfloat16Product& of, const float* a, const float* b, const float* bias,
              float* c, void* workspace, int threads) {
  Pair* const packed_a = static_cast<Pair*>(workspace);
  Pair* const packed_b = packed_a + pairs_of_a(of);
  const std::int64_t depth = depth_of_blocks(of.k);
  const std::int64_t panel_pairs = (of.m + 2 * tile_rows - 1) / (2 * tile_rows);
  for_rows(threads, panel_pairs, 2 * tile_rows * of.k * 4, [&](std::int64_t panels) {
    for (std::int64_t at = 0; at < of.k; at += depth) {
      pack_a(of, a, {at, std::min(at + depth, of.k)}, panels * 2 * tile_rows,
             packed_a + at / 2 * rounded_up(of.m, 2 * tile_rows));
    }
  });
  const bool past_caches =
      !of.accumulate && of.k <= depth && of.n % lanes == 0 && of.c_stride % lanes == 0 &&
      reinterpret_cast<std::uintptr_t>(c) % 64 == 0 && of.m * of.n * 4 > bytes_past_caches;
  // Whole vectors of columns for each thread; rows if there are too few.
  const std::int64_t column_units = (of.n + tile_columns - 1) / tile_columns;
  const std::int64_t row_units = panel_pairs;
  const auto team = static_cast<int>(
      std::clamp<std::int64_t>(of.m * of.n * of.k / work_of_a_thread, 1,
                               std::min<std::int64_t>(threads, std::max(column_units, row_units))));
  const bool by_columns = column_units >= team;
  const auto run_part = [&](int number) {
    const auto share = [&](std::int64_t units, std::int64_t unit, std::int64_t end) {
      const Range range = block_range(units, team, number);
      return Range{std::min(range.begin * unit, end), std::min(range.end * unit, end)};
    };
    const Range rows = by_columns ? Range{0, of.m} : share(row_units, 2 * tile_rows, of.m);
    const Range columns = by_columns ? share(column_units, tile_columns, of.n) : Range{0, of.n};
    multiply_part(
        {of, b, bias, c, rows, columns, packed_a, packed_b + number * pairs_of_b(of), past_caches});
  };
  if (team == 1) {
    run_part(0);
    return;
  }
#pragma omp parallel for num_threads(team) schedule(static, 1)
  for (int number = 0; number < team; ++number) run_part(number);
}

}  // namespace meshwork::cpu

#pragma GCC pop_options
#pragma GCC diagnostic pop

#else

namespace meshwork::cpu {

bool has_bfloat16_instructions() {
  return false;
}
std::int64_t workspace_bytes(const Bfloat16Product&, int) {
  return 0;
}
void multiply(const Bfloat16Product&, const float*, const float*, const float*, float*, void*,
              int) {
  internal_error("a product in bfloat16 on a processor without instructions for it");
}

}  // namespace meshwork::cpu

#endif

// Attention whose scores stay in the cache.
//
// A tile of 64 queries meets tiles of 64 keys, one after the other. Scores lie transposed, (key,
// query): a vector holds a key's scores of 16 queries, so that maxima, exponentials and sums of all
// queries go side by side, and no row is too short. Those of tiles are multiplied by log2(e), since
// a power of two takes fewer instructions. While tiles of keys go on, a query's maximum m grows;
// what was added up before is multiplied by 2^(old m - new m). Tiles that no query looks at are
// left out, so that a causal attention does half of the work. Of other tiles, bands are worked on:
// 16 keys, or more that the same queries look at, and these queries, by 16. A group of tiles of
// queries stays in the second cache. Each tile of keys enters the first once for the group; the
// next is prefetched meanwhile.
//
// Backward computes the scores of a pair of tiles again, from the logarithms that forward left, and
// multiplies four times. Where samples and heads of keys are at least as many as threads, a thread
// does all of a head. Elsewhere threads share tiles: first those of queries, for dq, then those of
// keys, for dk and dv, which computes scores twice, and turns queries for each tile of keys. Sums
// over tiles have the same order in both, so that the bits are equal.
//
// Bound by FLOP: the products are the kernel's own (small_products.h), since a call of a library
// takes longer than a tile. In float32 also where others multiply in bfloat16. With dropout, Philox
// takes a quarter of forward.
#include "runtime/device/kernels/attention.h"

#include <omp.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>

#include "runtime/device/body_kernel.h"
#include "runtime/device/cpu/kernels.h"
#include "runtime/device/cpu/philox_groups.h"
#include "runtime/device/cpu/small_products.h"
#include "runtime/device/cpu/vector_math.h"
#include "runtime/device/kernels/step_scalars.h"
#include "runtime/device/philox.h"
#include "runtime/shape/partition.h"

namespace meshwork::cpu {

namespace {

constexpr std::int64_t tile = 64;   // of queries, and of keys
constexpr std::int64_t strip = 16;  // of queries in a vector, and of as many keys
constexpr std::int64_t group = 8;   // tiles of queries at most
constexpr std::size_t strips = tile / strip;
constexpr std::int64_t tile_count(std::int64_t length) {
  return (length + tile - 1) / tile;
}
constexpr float log2_of_e = 1.44269504088896341f;
constexpr float no_score = -std::numeric_limits<float>::infinity();

/// A value for each query of a tile.
template <class T = float>
struct alignas(64) OfQueries : std::array<T, tile> {};
/// scores[key][query] of a pair of tiles.
struct alignas(64) Scores : std::array<OfQueries<>, tile> {};

/// A tile of a sequence: places [begin, end).
Range tile_of(std::int64_t length, std::int64_t index) {
  return {index * tile, std::min(length, (index + 1) * tile)};
}

/// The vectors of one head of one sample, `elements` each, `row` floats apart.
struct Vectors {
  const float* data;
  std::int64_t row, elements;

  [[nodiscard]] const float* at(std::int64_t place) const { return data + place * row; }
};

/// The heads of a tensor (batch, length, heads, elements).
struct Heads {
  std::int64_t length, heads, elements;

  [[nodiscard]] std::int64_t offset(std::int64_t sample, std::int64_t head) const {
    return (sample * length * heads + head) * elements;
  }
  [[nodiscard]] Vectors of(const float* data, std::int64_t sample, std::int64_t head) const {
    return {data + offset(sample, head), heads * elements, elements};
  }
};

/// Places [places.begin, places.end) as rows of a factor, of whole registers with 0 behind: where they
/// are, or copied to `room`. Rows far apart share few sets of the first cache and push each other out.
RowMatrix rows_of(const Vectors& vectors, const Range& places, float* room) {
  constexpr std::int64_t far = 256;
  const std::int64_t width = in_lanes(vectors.elements);
  if (width == vectors.elements && (vectors.row < far || vectors.row == width)) {
    return {vectors.at(places.begin), vectors.row};
  }
  for (std::int64_t i = places.begin; i < places.end; ++i) {
    float* to = room + (i - places.begin) * width;
    std::copy_n(vectors.at(i), vectors.elements, to);
    std::fill(to + vectors.elements, to + width, 0.0f);
  }
  return {room, width};
}

/// Prefetches share `i` of `count` of the vectors at `places` into the second cache, before
/// `rows_of` reads them.
void prefetch(const Vectors& vectors, const Range& places, std::int64_t i, std::int64_t count) {
  constexpr std::int64_t line = 16;
  constexpr int to_read = 0, second_cache = 2;
  const std::int64_t share = (tile + count - 1) / count, begin = places.begin + i * share;
  for (std::int64_t place = begin; place < std::min(places.end, begin + share); ++place) {
    for (std::int64_t e = 0; e < vectors.elements; e += line) {
      __builtin_prefetch(vectors.at(place) + e, to_read, second_cache);
    }
  }
}

/// turned[element][place] = scale * vectors; 0 behind the last place.
void turn(const Vectors& vectors, const Range& places, float scale, float* turned) {
  const std::int64_t count = places.length();
  for (std::int64_t e = 0; e < vectors.elements; ++e) {
    float* to = turned + e * tile;
    const float* from = vectors.at(places.begin) + e;
    for (std::int64_t i = 0; i < count; ++i) to[i] = scale * from[i * vectors.row];
    std::fill(to + count, to + tile, 0.0f);
  }
}

/// The least word of Philox that keeps a probability, and what multiplies those that are kept.
struct Dropped {
  std::uint32_t least = 0;
  float factor = 1;  // of what is kept

  explicit Dropped(float rate) {
    const std::uint64_t word = least_kept_word(rate);
    const bool some = word <= 0xffffffffu;
    least = some ? static_cast<std::uint32_t>(word) : 0;
    factor = some ? 1 / (1 - rate) : 0;
  }
};

/// Bit i says whether words[i], of 32, is `least` or more.
std::uint32_t bits_from(const std::uint32_t* words, std::uint32_t least) {
  std::uint32_t bits = 0;
#pragma omp simd reduction(| : bits)
  for (std::uint32_t i = 0; i < 32; ++i) bits |= static_cast<std::uint32_t>(words[i] >= least) << i;
  return bits;
}

/// Which probabilities of a pair of tiles dropout keeps.
class Kept {
 public:
  Kept(const Dropped& dropped, const AttentionShape& at, std::int64_t sample, std::int64_t head,
       const Range& queries, const Range& keys, std::uint64_t step)
      : factor_(dropped.factor) {
    // The counters of several queries fill groups better than those of one.
    alignas(64) std::array<std::uint64_t, strip * row_counters + group_counters> counters{};
    alignas(64) std::array<std::uint32_t, 4 * counters.size() + tile> words{};
    for (std::int64_t begin = queries.begin; begin < queries.end; begin += strip) {
      const std::int64_t count = std::min(strip, queries.end - begin);
      std::array<std::size_t, strip> starts{};  // of the queries' words
      std::size_t used = 0;
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t first = at.number_of(sample, head, begin + i, keys.begin);
        const std::int64_t end = (first + keys.length() + 3) / 4;
        starts[static_cast<std::size_t>(i)] = 4 * used + static_cast<std::size_t>(first % 4);
        for (std::int64_t counter = first / 4; counter < end; ++counter) {
          counters[used++] = static_cast<std::uint64_t>(counter);
        }
      }
      for (std::size_t c = 0; c < used; c += group_counters) {
        philox_group(at.random_key, &counters[c], step, &words[4 * c]);
      }
      for (std::int64_t i = 0; i < count; ++i) {
        for (std::size_t word = 0; word < bits_.size(); ++word) {
          bits_[word][static_cast<std::size_t>(begin - queries.begin + i)] =
              bits_from(&words[starts[static_cast<std::size_t>(i)] + 32 * word], dropped.least);
        }
      }
    }
  }
  [[nodiscard]] float factor(std::int64_t key, std::int64_t query) const {
    return (bits_[key / 32][query] >> (key % 32) & 1) != 0 ? factor_ : 0.0f;
  }

 private:
  // A query's counters: the first key of a tile may be any word of its own.
  static constexpr std::size_t row_counters = tile / 4 + 1;

  float factor_;
  std::array<OfQueries<std::uint32_t>, tile / 32> bits_{};  // of keys 32 word to 32 word + 31
};

/// Keys of a tile, and whole strips of queries that look at them, both from the begin of their tile.
struct Band {
  Range keys, queries;

  /// How many of `count` queries are in it.
  [[nodiscard]] std::int64_t queries_of(std::int64_t count) const {
    return std::min(queries.end, count) - queries.begin;
  }
};
/// Of a pair of tiles, in the order of keys.
struct Bands {
  std::array<Band, strips> bands;
  std::size_t count = 0;

  [[nodiscard]] const Band* begin() const { return bands.data(); }
  [[nodiscard]] const Band* end() const { return bands.data() + count; }
};

/// f(key row, query) for all of a band. Keys go by innermost, so that what a lambda adds up for each
/// query stays in registers.
template <class Function>
void each(const Band& band, const Function& f) {
  for (std::int64_t first = band.queries.begin; first < band.queries.end; first += strip) {
    for (std::int64_t key = band.keys.begin; key < band.keys.end; ++key) {
#pragma omp simd
      for (std::int64_t query = first; query < first + strip; ++query) f(key, query);
    }
  }
}
template <class Function>
void each(const Bands& bands, const Function& f) {
  for (const Band& band : bands) each(band, f);
}

/// Those of the keys that do not stand before the bound of the query.
AttentionShape::Range bounded(const AttentionShape& at, AttentionShape::Range keys,
                              const float* bounds, std::int64_t query) {
  if (bounds == nullptr) return keys;
  const auto first = static_cast<std::int64_t>(bounds[query]) - at.first_key;
  keys.begin = std::clamp(first, keys.begin, keys.end);
  return keys;
}

/// Which keys the queries of a tile look at.
struct LookedAt {
  OfQueries<std::int32_t> begin, end;
  std::array<Range, strips> of_strips;  // of the queries of a strip together
  Range keys{0, 0};                     // of all of them together
  const float* mask_of_keys;            // of the sample, or null

  /// `bounds` are those of the sample's queries, or null.
  LookedAt(const AttentionShape& at, const Range& queries, const float* mask, const float* bounds)
      : mask_of_keys(mask) {
    begin.fill(0), end.fill(0);
    of_strips.fill({at.keys, 0});
    keys = {at.keys, 0};
    for (std::int64_t query = queries.begin; query < queries.end; ++query) {
      const AttentionShape::Range of = bounded(at, at.keys_of(query), bounds, query);
      const auto i = static_cast<std::size_t>(query - queries.begin);
      begin[i] = static_cast<std::int32_t>(of.begin), end[i] = static_cast<std::int32_t>(of.end);
      if (of.begin == of.end) continue;
      for (Range* all : {&keys, &of_strips[i / strip]}) {
        *all = {std::min(all->begin, of.begin), std::max(all->end, of.end)};
      }
    }
    if (keys.end <= keys.begin) keys = {0, 0};
  }
  /// Whether any looks at one of `of`.
  [[nodiscard]] bool any(const Range& of) const {
    return of.begin < keys.end && keys.begin < of.end;
  }
  /// Those of the tile of keys `of`. Strips of keys that the same strips of queries look at are one.
  [[nodiscard]] Bands bands(const Range& of) const {
    Bands all;
    for (std::int64_t first = of.begin; first < of.end; first += strip) {
      const Range here{first, std::min(of.end, first + strip)};
      Range queries{tile, 0};
      for (std::size_t i = 0; i < strips; ++i) {
        if (of_strips[i].begin >= here.end || here.begin >= of_strips[i].end) continue;
        const auto from = static_cast<std::int64_t>(i) * strip;
        queries = {std::min(queries.begin, from), from + strip};
      }
      if (queries.end == 0) continue;
      const Range added{here.begin - of.begin, here.end - of.begin};
      Band* const last = all.count > 0 ? &all.bands[all.count - 1] : nullptr;
      if (last != nullptr && last->queries == queries && last->keys.end == added.begin) {
        last->keys.end = added.end;
      } else {
        all.bands[all.count++] = {added, queries};
      }
    }
    return all;
  }
  /// Scores of keys that a query does not look at become minus infinity.
  void mask(const Range& of, const Bands& bands, std::int64_t queries, Scores& scores) const {
    if (mask_of_keys != nullptr) {
      for (std::int64_t key = of.begin; key < of.end; ++key) {
        if (mask_of_keys[key] == 0.0f)
          scores[static_cast<std::size_t>(key - of.begin)].fill(no_score);
      }
    }
    const auto first = static_cast<std::int32_t>(of.begin);
    for (const Band& band : bands) {
      bool all = true;
      for (std::int64_t i = 0; i < band.queries_of(queries); ++i) {
        const std::int64_t query = band.queries.begin + i;
        all = all && begin[query] <= first + band.keys.begin && first + band.keys.end <= end[query];
      }
      if (all) continue;
      each(band, [&](std::int64_t key, std::int64_t query) {
        const std::int32_t place = first + static_cast<std::int32_t>(key);
        const bool seen = begin[query] <= place && place < end[query];
        scores[key][query] = seen ? scores[key][query] : no_score;
      });
    }
  }
};

/// Rows of a factor from `first` on.
RowMatrix rows_from(const RowMatrix& rows, std::int64_t first) {
  return {rows.data + first * rows.row, rows.row};
}

/// scores = the products of keys, of `elements` each, and turned queries.
void score(const RowMatrix& keys, std::int64_t elements, const Bands& bands, const float* turned,
           Scores& scores) {
  for (const Band& band : bands) {
    const RowMatrix left = rows_from(keys, band.keys.begin);
    multiply(band.keys.length(), band.queries.length(), elements, {left.data, left.row, 1},
             {turned + band.queries.begin, tile}, &scores[band.keys.begin][band.queries.begin],
             tile, false);
  }
}

/// Room of a thread, cut into pieces that begin at cache lines.
class Room {
 public:
  explicit Room(float* begin) : next_(begin) {}
  [[nodiscard]] float* take(std::int64_t floats) {
    float* const piece = next_;
    next_ += (floats + 15) / 16 * 16;
    return piece;
  }

 private:
  float* next_;
};
/// What `pieces` of so many floats together take.
constexpr std::int64_t with_margin(std::int64_t floats, int pieces) {
  return (floats + 15) / 16 * 16 + 16 * pieces;
}

/// body(item, room) for all items, on threads with room of their own.
template <class Body>
void share(int threads, std::int64_t items, float* room, std::int64_t room_each, const Body& body) {
  const int team = static_cast<int>(std::clamp<std::int64_t>(items, 1, threads));
#pragma omp parallel num_threads(team)
  {
    float* const own = room + omp_get_thread_num() * room_each;
#pragma omp for schedule(dynamic, 1)
    for (std::int64_t item = 0; item < items; ++item) body(item, own);
  }
}

/// The mask of a sample's keys, or null.
const float* mask_of(const AttentionShape& shape, void* const* operands, std::int64_t sample) {
  return shape.masked ? at<const float>(operands, 3) + sample * shape.keys : nullptr;
}

/// The bounds of a sample's queries, or null.
const float* bounds_of(const AttentionShape& shape, void* const* operands, std::int64_t sample) {
  return shape.bounded ? at<const float>(operands, shape.bounds()) + sample * shape.queries
                       : nullptr;
}

std::uint64_t step_of(void* const* operands, int index) {
  return static_cast<std::uint64_t>(at<const StepScalars>(operands, index)->step);
}

/// `shape` with the places that this run is for.
AttentionShape placed(const AttentionShape& shape, void* const* operands, int scalars) {
  return shape.resumed ? shape.from(at<const StepScalars>(operands, scalars)->position) : shape;
}

class Forward {
 public:
  // With fewer items, threads would wait for the last one.
  static constexpr std::int64_t items_a_thread = 8;

  Forward(const AttentionSpec& spec, int threads)
      : spec_(spec),
        at_(spec.at),
        q_{at_.queries, at_.heads, at_.key_length},
        k_{at_.keys, at_.key_heads, at_.key_length},
        v_{at_.keys, at_.key_heads, at_.value_length},
        y_{at_.queries, at_.heads, at_.value_length},
        width_(in_lanes(at_.value_length)),
        tiles_(tile_count(at_.queries)),
        group_(std::clamp<std::int64_t>(at_.batch * at_.heads * tiles_ / (items_a_thread * threads),
                                        1, group)),
        dropped_(at_.dropout) {}

  [[nodiscard]] std::int64_t items() const { return at_.batch * at_.heads * groups(); }
  /// Floats.
  [[nodiscard]] std::int64_t room() const {
    if (one_query()) return with_margin(at_.keys, 1);
    const std::int64_t own = std::min(group_, tiles_) * (at_.key_length + width_);
    const std::int64_t shared = in_lanes(at_.key_length) + width_ + tile;
    return with_margin(tile * (own + shared), static_cast<int>(2 * group_) + 3);
  }

  // Groups of a head come one after the other, since they share its keys; first the last of them,
  // which may look at the most.
  void run(std::int64_t item, void* const* operands, float* room) const {
    const std::int64_t of_heads = item / groups();
    const std::int64_t sample = of_heads / at_.heads, head = of_heads % at_.heads;
    const std::int64_t first = (groups() - 1 - item % groups()) * group_;
    const Range tiles{first, std::min(tiles_, first + group_)};
    const std::int64_t key_head = at_.key_head_of(head);
    const Vectors q = q_.of(at(operands, 0), sample, head);
    const Vectors k = k_.of(at(operands, 1), sample, key_head);
    const Vectors v = v_.of(at(operands, 2), sample, key_head);
    const float* const mask = mask_of(at_, operands, sample);
    const float* const bounds = bounds_of(at_, operands, sample);
    const int y = spec_.results();
    const AttentionShape here = placed(at_, operands, spec_.scalars());
    float* const to = at(operands, y) + y_.offset(sample, head);
    float* const logarithms = at(operands, y + 1) + (sample * at_.heads + head) * at_.queries;

    Room pieces(room);
    if (one_query()) {
      *logarithms = attend_alone(bounded(here, here.keys_of(0), bounds, 0), q.at(0), k, v, mask,
                                 pieces.take(at_.keys), to);
      return;
    }
    float* const key_room = pieces.take(tile * in_lanes(at_.key_length));
    float* const value_room = pieces.take(tile * width_);
    Scores& scores = *reinterpret_cast<Scores*>(pieces.take(tile * tile));
    std::array<std::optional<Queries>, group> all;
    for (std::int64_t i = tiles.begin; i < tiles.end; ++i) {
      float* const turned = pieces.take(tile * at_.key_length);
      Queries& of = all[static_cast<std::size_t>(i - tiles.begin)].emplace(
          here, tile_of(at_.queries, i), mask, bounds, turned, pieces.take(tile * width_));
      turn(q, of.places, at_.scale * log2_of_e, turned);
      std::fill_n(of.sums, of.places.length() * width_, 0.0f);
    }
    for (std::int64_t t = 0; t < tile_count(at_.keys); ++t) {
      const Range whole = tile_of(at_.keys, t), next = tile_of(at_.keys, t + 1);
      std::optional<RowMatrix> key_rows, value_rows;
      for (std::int64_t i = 0; i < tiles.length(); ++i) {
        Queries& of = *all[static_cast<std::size_t>(i)];
        if (!of.looked_at.any(whole)) continue;
        prefetch(k, next, i, tiles.length());
        prefetch(v, next, i, tiles.length());
        Range keys = whole;
        keys.end = std::min(keys.end, of.looked_at.keys.end);  // of a piece, none are behind it yet
        const std::int64_t count = of.places.length();
        const Bands bands = of.looked_at.bands(keys);
        if (!key_rows) key_rows = rows_of(k, whole, key_room);
        score(*key_rows, at_.key_length, bands, of.turned, scores);
        of.looked_at.mask(keys, bands, count, scores);
        accumulate(scores, bands, of);
        if (at_.dropout > 0) {
          const Kept kept(dropped_, here, sample, head, of.places, keys,
                          step_of(operands, spec_.scalars()));
          each(bands, [&](std::int64_t key, std::int64_t query) {
            scores[key][query] *= kept.factor(key, query);
          });
        }
        if (!value_rows) value_rows = rows_of(v, whole, value_room);
        for (const Band& band : bands) {
          multiply(band.queries_of(count), width_, band.keys.length(),
                   {&scores[band.keys.begin][band.queries.begin], 1, tile},
                   rows_from(*value_rows, band.keys.begin), of.sums + band.queries.begin * width_,
                   width_, true);
        }
      }
    }
    for (std::int64_t i = 0; i < tiles.length(); ++i) {
      finish(*all[static_cast<std::size_t>(i)], to, logarithms);
    }
  }

 private:
  /// Keys and values are read once, which bounds it: no tile of queries shares them.
  [[nodiscard]] bool one_query() const { return at_.queries == 1 && at_.dropout == 0; }
  [[nodiscard]] float attend_alone(const AttentionShape::Range& keys, const float* q,
                                   const Vectors& k, const Vectors& v, const float* mask, float* p,
                                   float* y) const {
    float m = no_score, l = 0;
    for (std::int64_t key = keys.begin; key < keys.end; ++key) {
      const float* const vector = k.at(key);
      float dot = 0;
#pragma omp simd reduction(+ : dot)
      for (std::int64_t e = 0; e < at_.key_length; ++e) dot += q[e] * vector[e];
      p[key] = mask != nullptr && mask[key] == 0.0f ? no_score : at_.scale * dot;
      m = m < p[key] ? p[key] : m;
    }
    const float base = m == no_score ? 0.0f : m;
#pragma omp simd reduction(+ : l)
    for (std::int64_t key = keys.begin; key < keys.end; ++key) {
      p[key] = vector_exp_to_one(p[key] - base);
      l += p[key];
    }
    std::fill_n(y, at_.value_length, 0.0f);
    if (l == 0.0f) return 0;
    for (std::int64_t key = keys.begin; key < keys.end; ++key) {
      const float share = p[key] / l;
      const float* const vector = v.at(key);
#pragma omp simd
      for (std::int64_t e = 0; e < at_.value_length; ++e) y[e] += share * vector[e];
    }
    return m + vector_log(l);
  }
  /// A tile of queries, and what was found of them so far: maxima, and sums of exponentials and of
  /// values.
  struct Queries {
    Range places;
    LookedAt looked_at;
    const float* turned;
    float* sums;
    OfQueries<> m, l{};

    Queries(const AttentionShape& at, const Range& of, const float* mask, const float* bounds,
            const float* q, float* y)
        : places(of), looked_at(at, of, mask, bounds), turned(q), sums(y) {
      m.fill(no_score);
    }
  };
  [[nodiscard]] std::int64_t groups() const {
    return (tiles_ + group_ - 1) / group_;
  }
  /// Scores become their exponentials, and what was added up before is scaled to the new maximum.
  void accumulate(Scores& scores, const Bands& bands, Queries& of) const {
    OfQueries<>&m = of.m, &l = of.l;
    OfQueries<> best = m, factor, sum{};
    each(bands, [&](std::int64_t key, std::int64_t query) {
      best[query] = best[query] < scores[key][query] ? scores[key][query] : best[query];
    });
    OfQueries<> base;
#pragma omp simd
    for (std::int64_t query = 0; query < tile; ++query) {
      base[query] = best[query] == no_score ? 0.0f : best[query];
      factor[query] = vector_exp2_to_one(m[query] - base[query]);
    }
    each(bands, [&](std::int64_t key, std::int64_t query) {
      const float e = vector_exp2_to_one(scores[key][query] - base[query]);
      scores[key][query] = e;
      sum[query] += e;
    });
#pragma omp simd
    for (std::int64_t query = 0; query < tile; ++query) {
      l[query] = l[query] * factor[query] + sum[query];
      m[query] = best[query];
    }
    for (std::int64_t query = 0; query < of.places.length(); ++query) {
      const float scale = factor[query];
      if (scale == 1.0f) continue;
      float* const row = of.sums + query * width_;
#pragma omp simd
      for (std::int64_t e = 0; e < width_; ++e) row[e] *= scale;
    }
  }
  void finish(const Queries& of, float* y, float* logarithms) const {
    for (std::int64_t query = 0; query < of.places.length(); ++query) {
      const float l = of.l[query];
      const bool empty = l == 0.0f;
      const float factor = empty ? 0.0f : 1 / l;
      const float* const sums = of.sums + query * width_;
      float* const to = y + (of.places.begin + query) * at_.heads * at_.value_length;
      for (std::int64_t e = 0; e < at_.value_length; ++e) to[e] = sums[e] * factor;
      logarithms[of.places.begin + query] = empty ? 0.0f : of.m[query] / log2_of_e + vector_log(l);
    }
  }

  AttentionSpec spec_;
  AttentionShape at_;
  Heads q_, k_, v_, y_;
  std::int64_t width_, tiles_, group_;
  Dropped dropped_;
};

class Backward {
 public:
  /// What is wanted of a head of keys: gradients of queries and of keys and values, by tiles.
  struct Part {
    Range query_tiles, key_tiles;
    bool of_queries, of_keys;
  };

  explicit Backward(const AttentionGradientSpec& spec)
      : spec_(spec),
        at_(spec.at),
        q_{at_.queries, at_.heads, at_.key_length},
        k_{at_.keys, at_.key_heads, at_.key_length},
        v_{at_.keys, at_.key_heads, at_.value_length},
        y_{at_.queries, at_.heads, at_.value_length},
        key_width_(in_lanes(at_.key_length)),
        value_width_(in_lanes(at_.value_length)),
        dropped_(at_.dropout) {}

  [[nodiscard]] std::int64_t query_tiles() const { return tile_count(at_.queries); }
  [[nodiscard]] std::int64_t key_tiles() const { return tile_count(at_.keys); }
  /// Floats that a part takes.
  [[nodiscard]] std::int64_t room(const Part& part) const {
    const std::int64_t widths = key_width_ + value_width_;
    const std::int64_t of_query = at_.key_length + at_.value_length + (part.of_keys ? widths : 0) +
                                  (part.of_queries ? key_width_ : 0);
    const std::int64_t tiles = std::min(group, part.query_tiles.length());
    const std::int64_t keys = part.of_keys ? part.key_tiles.length() : 0;
    return with_margin(tile * (tiles * of_query + (keys + 1) * widths + 2 * tile),
                       static_cast<int>(5 * group) + 6);
  }

  void run(std::int64_t sample, std::int64_t key_head, const Part& part, void* const* operands,
           float* room) const {
    const int dq = spec_.results();
    const Vectors k = k_.of(at(operands, 1), sample, key_head);
    const Vectors v = v_.of(at(operands, 2), sample, key_head);
    Room pieces(room);
    const std::int64_t places = part.of_keys ? part.key_tiles.length() * tile : 0;
    float* const dk = pieces.take(places * key_width_);
    float* const dv = pieces.take(places * value_width_);
    if (part.of_keys) {
      std::fill_n(dk, places * key_width_, 0.0f);
      std::fill_n(dv, places * value_width_, 0.0f);
    }
    for (std::int64_t head = 0; head < at_.heads; ++head) {
      if (at_.key_head_of(head) != key_head) continue;
      for (std::int64_t first = part.query_tiles.begin; first < part.query_tiles.end;
           first += group) {
        add_group(sample, head, {first, std::min(first + group, part.query_tiles.end)}, k, v, part,
                  operands, dk, dv, pieces);
      }
    }
    if (!part.of_keys) return;
    const std::int64_t first = part.key_tiles.begin * tile,
                       end = std::min(at_.keys, part.key_tiles.end * tile);
    write(dk, key_width_, at_.scale, {first, end}, k_,
          at(operands, dq + 1) + k_.offset(sample, key_head));
    write(dv, value_width_, 1, {first, end}, v_,
          at(operands, dq + 2) + v_.offset(sample, key_head));
  }

 private:
  /// A tile of queries of a head, with what is read of it: vectors as columns and as rows, and the
  /// products of outputs and their gradients.
  struct Queries {
    Range places;
    LookedAt looked_at;
    float *turned_q, *turned_dy;
    RowMatrix q_rows, dy_rows;  // for gradients of keys
    float* dq;                  // for gradients of queries
    OfQueries<> l{}, dot{};
  };

  /// Adds what the tiles of queries `tiles` of one head give; at most a group.
  void add_group(std::int64_t sample, std::int64_t head, const Range& tiles, const Vectors& k,
                 const Vectors& v, const Part& part, void* const* operands, float* dk, float* dv,
                 Room pieces) const {
    const bool drops = at_.dropout > 0;
    const Vectors q = q_.of(at(operands, 0), sample, head);
    void* const* const forward = operands + spec_.y();  // y, l, dy
    const Vectors y = y_.of(at(forward, 0), sample, head);
    const float* const logarithms = at(forward, 1) + (sample * at_.heads + head) * at_.queries;
    const Vectors dy = y_.of(at(forward, 2), sample, head);
    const float* const mask = mask_of(at_, operands, sample);
    const float* const bounds = bounds_of(at_, operands, sample);
    float* const key_room = pieces.take(tile * key_width_);
    float* const value_room = pieces.take(tile * value_width_);
    Scores& p = *reinterpret_cast<Scores*>(pieces.take(tile * tile));
    Scores& ds = *reinterpret_cast<Scores*>(pieces.take(tile * tile));
    std::array<std::optional<Queries>, group> all;
    for (std::int64_t i = tiles.begin; i < tiles.end; ++i) {
      const Range places = tile_of(at_.queries, i);
      Queries& of = all[static_cast<std::size_t>(i - tiles.begin)].emplace(
          Queries{places, LookedAt(at_, places, mask, bounds)});
      of.turned_q = pieces.take(tile * at_.key_length);
      of.turned_dy = pieces.take(tile * at_.value_length);
      turn(q, places, at_.scale * log2_of_e, of.turned_q);
      turn(dy, places, 1, of.turned_dy);
      if (part.of_keys) {
        of.q_rows = rows_of(q, places, pieces.take(tile * key_width_));
        of.dy_rows = rows_of(dy, places, pieces.take(tile * value_width_));
      }
      if (part.of_queries) {
        of.dq = pieces.take(tile * key_width_);
        std::fill_n(of.dq, tile * key_width_, 0.0f);
      }
      for (std::int64_t query = places.begin; query < places.end; ++query) {
        const auto place = static_cast<std::size_t>(query - places.begin);
        of.l[place] = logarithms[query] * log2_of_e;
        float dot = 0;
        const float *a = y.at(query), *b = dy.at(query);
#pragma omp simd reduction(+ : dot)
        for (std::int64_t e = 0; e < at_.value_length; ++e) dot += a[e] * b[e];
        of.dot[place] = dot;
      }
    }

    for (std::int64_t j = part.key_tiles.begin; j < part.key_tiles.end; ++j) {
      const Range keys = tile_of(at_.keys, j);
      const Range next = tile_of(std::min(at_.keys, part.key_tiles.end * tile), j + 1);
      std::optional<RowMatrix> key_rows, value_rows;
      for (std::int64_t i = 0; i < tiles.length(); ++i) {
        const Queries& of = *all[static_cast<std::size_t>(i)];
        const std::int64_t count = of.places.length();
        if (!of.looked_at.any(keys)) continue;
        prefetch(k, next, i, tiles.length());
        prefetch(v, next, i, tiles.length());
        const Bands bands = of.looked_at.bands(keys);
        if (!key_rows) key_rows = rows_of(k, keys, key_room);
        if (!value_rows) value_rows = rows_of(v, keys, value_room);
        score(*key_rows, at_.key_length, bands, of.turned_q, p);
        of.looked_at.mask(keys, bands, count, p);
        score(*value_rows, at_.value_length, bands, of.turned_dy, ds);
        const OfQueries<>&l = of.l, &dot = of.dot;
        each(bands, [&](std::int64_t key, std::int64_t query) {
          p[key][query] = vector_exp2_to_one(p[key][query] - l[query]);
        });
        if (drops) {
          const Kept kept(dropped_, at_, sample, head, of.places, keys,
                          step_of(operands, spec_.scalars()));
          each(bands, [&](std::int64_t key, std::int64_t query) {
            const float factor = kept.factor(key, query), probability = p[key][query];
            p[key][query] = probability * factor;
            ds[key][query] = probability * (ds[key][query] * factor - dot[query]);
          });
        } else {
          each(bands, [&](std::int64_t key, std::int64_t query) {
            ds[key][query] = p[key][query] * (ds[key][query] - dot[query]);
          });
        }
        for (const Band& band : bands) {
          const std::int64_t key = band.keys.begin, query = band.queries.begin;
          const std::int64_t some_keys = band.keys.length(), some_queries = band.queries_of(count);
          if (part.of_keys) {
            const std::int64_t place = (j - part.key_tiles.begin) * tile + key;
            multiply(some_keys, value_width_, some_queries, {&p[key][query], tile, 1},
                     rows_from(of.dy_rows, query), dv + place * value_width_, value_width_, true);
            multiply(some_keys, key_width_, some_queries, {&ds[key][query], tile, 1},
                     rows_from(of.q_rows, query), dk + place * key_width_, key_width_, true);
          }
          if (part.of_queries) {
            multiply(some_queries, key_width_, some_keys, {&ds[key][query], 1, tile},
                     rows_from(*key_rows, key), of.dq + query * key_width_, key_width_, true);
          }
        }
      }
    }
    if (!part.of_queries) return;
    for (std::int64_t i = 0; i < tiles.length(); ++i) {
      const Queries& of = *all[static_cast<std::size_t>(i)];
      write(of.dq, key_width_, at_.scale, of.places, q_,
            at(operands, spec_.results()) + q_.offset(sample, head));
    }
  }

  /// The vectors of places `written` of one head = scale * from.
  static void write(const float* from, std::int64_t width, float scale, const Range& written,
                    const Heads& heads, float* to) {
    for (std::int64_t i = written.begin; i < written.end; ++i, from += width) {
      float* const row = to + i * heads.heads * heads.elements;
      for (std::int64_t e = 0; e < heads.elements; ++e) row[e] = scale * from[e];
    }
  }

  AttentionGradientSpec spec_;
  AttentionShape at_;
  Heads q_, k_, v_, y_;
  std::int64_t key_width_, value_width_;
  Dropped dropped_;
};

}  // namespace

void add_attention(Kernels& kernels) {
  kernels.add<AttentionSpec>([](const AttentionSpec& spec, const Context& context) {
    const Forward forward(spec, context.threads);
    const int workspace = spec.results() + 2;
    const auto bytes = static_cast<std::int64_t>(sizeof(float)) * forward.room() * context.threads;
    return make_kernel(
        [=, threads = context.threads](void* const* operands) {
          share(threads, forward.items(), at(operands, workspace), forward.room(),
                [&](std::int64_t item, float* room) { forward.run(item, operands, room); });
        },
        bytes);
  });
  kernels.add<AttentionGradientSpec>([](const AttentionGradientSpec& spec, const Context& context) {
    const Backward backward(spec);
    const int workspace = spec.results() + 3;
    const std::int64_t key_heads = spec.at.key_heads, heads = spec.at.batch * key_heads;
    // Parts of a head, whose numbers follow from that of the tile that they are of.
    using Part = Backward::Part;
    const Range queries{0, backward.query_tiles()}, keys{0, backward.key_tiles()};
    const auto whole = [=](std::int64_t) { return Part{queries, keys, true, true}; };
    const auto of_queries = [=](std::int64_t t) { return Part{{t, t + 1}, keys, true, false}; };
    const auto of_keys = [=](std::int64_t t) { return Part{queries, {t, t + 1}, false, true}; };
    const bool by_heads = heads >= context.threads;
    const std::int64_t room =
        by_heads ? backward.room(whole(0))
                 : std::max(backward.room(of_queries(0)), backward.room(of_keys(0)));
    return make_kernel(
        [=, threads = context.threads](void* const* operands) {
          const auto of_heads = [&](std::int64_t tiles, const auto& part_of) {
            share(threads, heads * tiles, at(operands, workspace), room,
                  [&](std::int64_t item, float* own) {
                    const std::int64_t head = item % heads;
                    backward.run(head / key_heads, head % key_heads, part_of(item / heads),
                                 operands, own);
                  });
          };
          if (by_heads) {
            of_heads(1, whole);
          } else {
            of_heads(queries.end, of_queries);
            of_heads(keys.end, of_keys);
          }
        },
        room * context.threads * static_cast<std::int64_t>(sizeof(float)));
  });
}

}  // namespace meshwork::cpu

// Attention by tiles whose scores stay in registers (FlashAttention-2, arXiv:2307.08691).
//
// A block keeps rows in its shared memory and meets tiles of 64 others, one after the other.
//   forward      rows are queries. While tiles of keys go on, a query's maximum m grows, and what
//                was added up before is multiplied by exp(old m - new m)
//   backward     scores are computed again, twice: once with queries as rows, for dq, and once with
//                keys as rows, for dk and dv. Each gradient is added up by one block, in the order
//                of tiles and of the heads that share a key: no atomics, the same bits every time
// Tiles that no row looks at are left out. Blocks with most tiles start first.
//
// Vectors are taken in `stage_columns` elements at a time. Longer ones have blocks for each part of
// the results, which compute all scores: half as much work again, or more, for 128 elements.
//
// Exponentials are powers of 2, with scores in units of log 2. Bound by FLOP: products run on tensor
// cores (tiles.h), in every precision.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "runtime/device/body_kernel.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/launch.h"
#include "runtime/device/cuda/tiles.h"
#include "runtime/device/cuda/workspace.h"
#include "runtime/device/kernels/attention.h"
#include "runtime/device/kernels/step_scalars.h"
#include "runtime/device/philox.h"

namespace meshwork::cuda {

namespace {

constexpr float log2_of_e = 1.44269504088896341f, log_of_2 = 0.69314718055994531f;
constexpr float no_score = -HUGE_VALF;
constexpr int tile_rows = 64;  // of the tiles that rows meet
constexpr int block_rows = Block::warps * warp_rows;

template <Precision precision>
constexpr int row_bytes = Stage<precision, block_rows>::bytes;
template <Precision precision>
constexpr int tile_bytes = Stage<precision, tile_rows>::bytes;

[[nodiscard]] MESHWORK_HOST_DEVICE constexpr std::int64_t parts(std::int64_t length,
                                                                std::int64_t part) {
  return (length + part - 1) / part;
}

/// Which keys here the queries here look at (AttentionShape), in few registers.
struct Sight {
  const float* mask;    // of keys, or null
  const float* bounds;  // of queries, or null
  int queries, keys, offset, least, most, first_key;

  Sight(const AttentionShape& at, void* const* operands)
      : mask(at.masked ? meshwork::at<const float>(operands, 3) : nullptr),
        bounds(at.bounded ? meshwork::at<const float>(operands, at.bounds()) : nullptr),
        queries(static_cast<int>(at.queries)),
        keys(static_cast<int>(at.keys)),
        offset(static_cast<int>(at.first_query - at.first_key)),
        least(static_cast<int>(std::max(at.distances().least, -any))),
        most(static_cast<int>(std::min(at.distances().most, any))),
        first_key(static_cast<int>(at.first_key)) {}
  /// Of one sample.
  [[nodiscard]] MESHWORK_HOST_DEVICE Sight of(int sample) const {
    Sight own = *this;
    if (mask != nullptr) own.mask += static_cast<std::int64_t>(sample) * keys;
    if (bounds != nullptr) own.bounds += static_cast<std::int64_t>(sample) * queries;
    return own;
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE bool looks(int query, int key) const {
    const int distance = query + offset - key;
    return query < queries && key < keys && least <= distance && distance <= most &&
           (mask == nullptr || mask[key] != 0.0f) &&
           (bounds == nullptr || static_cast<float>(first_key + key) >= bounds[query]);
  }
  /// Whether all of `query_count` queries look at all of `key_count` keys.
  [[nodiscard]] MESHWORK_HOST_DEVICE bool looks_at_all(int query, int query_count, int key,
                                                       int key_count) const {
    const int last_query = query + query_count - 1, last_key = key + key_count - 1;
    return mask == nullptr && bounds == nullptr && last_query < queries && last_key < keys &&
           query + offset - last_key >= least && last_query + offset - key <= most;
  }

 private:
  static constexpr std::int64_t any = std::int64_t{1} << 29;
};

/// The pairs of a tile, from a query and a key on.
template <bool rows_are_queries>
struct Pairs {
  int first_query, first_key;
  [[nodiscard]] MESHWORK_DEVICE int query(const Place& at) const {
    return first_query + (rows_are_queries ? at.row : at.column);
  }
  [[nodiscard]] MESHWORK_DEVICE int key(const Place& at) const {
    return first_key + (rows_are_queries ? at.column : at.row);
  }
};

/// What dropout multiplies probabilities by.
struct Kept {
  const StepScalars* scalars;
  std::uint64_t least;
  float factor;

  Kept(float rate, const StepScalars* step)
      : scalars(step), least(least_kept_word(rate)), factor(rate < 1 ? 1 / (1 - rate) : 0) {}
  [[nodiscard]] MESHWORK_HOST_DEVICE float operator()(const AttentionShape& at,
                                                      std::int64_t number) const {
    const std::uint32_t word = philox_word(at.random_key, static_cast<std::uint64_t>(number),
                                           static_cast<std::uint64_t>(scalars->step));
    return word >= least ? factor : 0.0f;
  }
};

/// The vectors of one head of one sample: `count` of `elements` each, `stride` floats apart.
template <class Number>
struct Vectors {
  Number* first;
  int count, elements, stride;

  /// Of a tensor (batch, length, heads, elements).
  MESHWORK_HOST_DEVICE static Vectors of(Number* tensor, std::int64_t length, std::int64_t heads,
                                         std::int64_t elements, std::int64_t sample,
                                         std::int64_t head) {
    return {tensor + (sample * length * heads + head) * elements, static_cast<int>(length),
            static_cast<int>(elements), static_cast<int>(heads * elements)};
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE Number* at(int place, int element) const {
    return first + static_cast<std::int64_t>(place) * stride + element;
  }
};

using Read = Vectors<const float>;

/// A stage that knows what it holds, and what is on its way.
template <Precision precision, int rows>
struct Held {
  Stage<precision, rows> stage;
  typename Stage<precision, rows>::Coming next;
  int what = nothing, coming = nothing;  // the number of a block of vectors and elements

  static constexpr int nothing = -1;

  MESHWORK_DEVICE Held(const Block& block, int byte)
      : stage(block.template shared<typename Stage<precision, rows>::Element>(byte)) {}
  /// Fills it with the vectors from `first` on, elements from `column` on, behind whoever reads what
  /// stands there. False if it holds them. Who reads it synchronises before.
  MESHWORK_DEVICE bool fill(const Block& block, const Read& of, int first, int column) {
    const int wanted = number_of(of, first, column);
    if (wanted == what) return false;
    what = wanted;
    if (wanted == coming) {
      block.synchronize();
      stage.store(next);
    } else {
      typename Stage<precision, rows>::Coming now;
      stage.fetch(now, of.at(first, column), of.stride, of.count - first, of.elements - column);
      block.synchronize();
      stage.store(now);
    }
    return true;
  }
  /// Begins to read what it is filled with next, if all elements fit.
  MESHWORK_DEVICE void prefetch(const Read& of, int first, int end) {
    if (first >= end || of.elements > stage_columns) return;
    coming = number_of(of, first, 0);
    stage.fetch(next, of.at(first, 0), of.stride, of.count - first, of.elements);
  }
  /// Vectors of another head follow.
  MESHWORK_DEVICE void forget() { what = coming = nothing; }

 private:
  MESHWORK_DEVICE static int number_of(const Read& of, int first, int column) {
    return first / rows * static_cast<int>(parts(of.elements, stage_columns)) +
           column / stage_columns;
  }
};

/// scores = rows x columns^T over all elements, of the vectors from `row` and `column` on.
template <Precision precision, int stage_rows, int tile_columns>
MESHWORK_DEVICE void multiply_pairs(const Block& block, int row, int column, const Read& rows,
                                    const Read& columns, Held<precision, stage_rows>& row_stage,
                                    Held<precision, tile_columns>& column_stage,
                                    Tile<tile_columns>& scores) {
  for (int element = 0; element < rows.elements; element += stage_columns) {
    const bool rows_are_new = row_stage.fill(block, rows, row, element);
    if (column_stage.fill(block, columns, column, element) || rows_are_new) block.synchronize();
    add_product_transposed(scores, row_stage.stage, block.warp() * warp_rows, column_stage.stage);
  }
}

/// results += factors x vectors, of their elements from `element` on.
template <Precision precision, int tile_columns>
MESHWORK_DEVICE void add_vectors(const Block& block, const Tile<tile_columns>& factors, int first,
                                 int element, const Read& vectors,
                                 Held<precision, tile_columns>& stage,
                                 Tile<stage_columns>& results) {
  if (element >= vectors.elements) return;
  if (stage.fill(block, vectors, first, element)) block.synchronize();
  add_product(results, factors, stage.stage);
}

/// The rows of a result that a warp has, from `first` on, elements from `element` on.
MESHWORK_DEVICE inline void write(Tile<stage_columns>& results, const Vectors<float>& to, int first,
                                  int element) {
  results.each([&](const Place& at, float& result) {
    const int row = first + at.row, column = element + at.column;
    if (row < to.count && column < to.elements) *to.at(row, column) = result;
  });
}

/// What a block does.
struct Task {
  int part, head, sample, tile;
  MESHWORK_HOST_DEVICE Task(std::int64_t number, std::int64_t parts, std::int64_t heads,
                            std::int64_t batch)
      : part(static_cast<int>(number % parts)),
        head(static_cast<int>(number / parts % heads)),
        sample(static_cast<int>(number / parts / heads % batch)),
        tile(static_cast<int>(number / parts / heads / batch)) {}
};

/// Rows [first, end) of a block, and the first of the warp's.
struct BlockRows {
  int first, end, own;
  /// Tile number `tile` of `count` rows.
  MESHWORK_DEVICE BlockRows(const Block& block, int tile, std::int64_t count)
      : first(tile * block_rows),
        end(static_cast<int>(count - first < block_rows ? count : first + block_rows)),
        own(first + block.warp() * warp_rows) {}
  /// With the last tile first: queries behind may look at more keys.
  MESHWORK_DEVICE static BlockRows from_behind(const Block& block, int tile, std::int64_t count) {
    return {block, static_cast<int>(parts(count, block_rows)) - 1 - tile, count};
  }
};

/// `resumed`: queries stand StepScalars::position further on.
template <Precision precision, bool drops, bool resumed>
struct Forward {
  static constexpr int shared_bytes = row_bytes<precision> + 2 * tile_bytes<precision>;
  AttentionShape at;
  Sight sight;
  Kept kept;
  const StepScalars* scalars;  // if `resumed`
  const float *q, *k, *v;
  float *y, *logarithms;

  [[nodiscard]] std::int64_t tasks() const {
    return at.batch * at.heads * parts(at.queries, block_rows) * value_parts();
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t value_parts() const {
    const std::int64_t most = parts(at.value_length, stage_columns);
    return most > 1 ? most : 1;
  }
  MESHWORK_DEVICE void operator()(const Block& block, std::int64_t number) const {
    if constexpr (resumed) {
      Forward<precision, drops, false> here{
          at.from(scalars->position), sight, kept, nullptr, q, k, v, y, logarithms};
      here.sight.offset += static_cast<int>(scalars->position);
      here(block, number);
    } else {
      attend(block, number);
    }
  }
  MESHWORK_DEVICE void attend(const Block& block, std::int64_t number) const {
    const Task task(number, value_parts(), at.heads, at.batch);
    const BlockRows rows = BlockRows::from_behind(block, task.tile, at.queries);
    const std::int64_t key_head = at.key_head_of(task.head);
    const int element = task.part * stage_columns;
    const Read queries = Read::of(q, at.queries, at.heads, at.key_length, task.sample, task.head);
    Read keys = Read::of(k, at.keys, at.key_heads, at.key_length, task.sample, key_head);
    Read values = Read::of(v, at.keys, at.key_heads, at.value_length, task.sample, key_head);

    Held<precision, block_rows> query_stage(block, 0);
    Held<precision, tile_rows> key_stage(block, row_bytes<precision>);
    Held<precision, tile_rows> value_stage(block, row_bytes<precision> + tile_bytes<precision>);
    Tile<stage_columns> results;
    Rows most(no_score), total(0), factor(0);
    const Sight sees = sight.of(task.sample);
    const float scale = at.scale * log2_of_e;
    const auto end = static_cast<int>(at.keys_of(rows.end - 1).end);
    keys.count = values.count = end;  // of a piece, none are behind it yet
    for (int key = static_cast<int>(at.keys_of(rows.first).begin) / tile_rows * tile_rows;
         key < end; key += tile_rows) {
      Tile<tile_rows> scores;
      value_stage.prefetch(values, key, end);
      multiply_pairs(block, rows.first, key, queries, keys, query_stage, key_stage, scores);
      scores.each([&](const Place&, float& score) { score *= scale; });
      if (!sees.looks_at_all(rows.own, warp_rows, key, tile_rows)) {
        scores.each([&](const Place& here, float& score) {
          if (!sees.looks(rows.own + here.row, key + here.column)) score = no_score;
        });
      }

      Rows highest = most;
      scores.each([&](const Place& at_row, float& score) {
        highest[at_row] = fmaxf(highest[at_row], score);
      });
      highest.template fold<folds::Maximum>();
      Rows::each([&](const Place& at_row) {
        const float seen = highest[at_row] == no_score ? 0.0f : highest[at_row];
        factor[at_row] = power_of_2(most[at_row] - seen);
        most[at_row] = highest[at_row], highest[at_row] = seen;
        total[at_row] *= factor[at_row];
      });
      scores.each([&](const Place& here, float& score) {
        score = power_of_2(score - highest[here]);
        total[here] += score;
      });
      if constexpr (drops) {
        scores.each([&](const Place& here, float& score) {
          score *= kept(
              at, at.number_of(task.sample, task.head, rows.own + here.row, key + here.column));
        });
      }
      results.each([&](const Place& here, float& result) { result *= factor[here]; });
      key_stage.prefetch(keys, key + tile_rows, end);
      add_vectors(block, scores, key, element, values, value_stage, results);
    }
    total.template fold<folds::Added<float>>();
    results.each([&](const Place& here, float& result) {
      result = total[here] == 0.0f ? 0.0f : result / total[here];
    });
    write(results,
          Vectors<float>::of(y, at.queries, at.heads, at.value_length, task.sample, task.head),
          rows.own, element);
    if (task.part > 0 || !Rows::leads()) return;
    Rows::each([&](const Place& here) {
      if (rows.own + here.row >= at.queries) return;
      logarithms[(task.sample * at.heads + task.head) * at.queries + rows.own + here.row] =
          total[here] == 0.0f ? 0.0f : most[here] * log_of_2 + logf(total[here]);
    });
  }
};

/// `dot`: the sum of y * dy.
struct QueryNumbers {
  float logarithm, dot;
};

/// What both kernels of backward read. `dots` lie as `logarithms` do.
template <bool drops>
struct Backward {
  AttentionShape at;
  Sight sight;
  Kept kept;
  const float *q, *k, *v, *logarithms, *dots, *dy;

  [[nodiscard]] MESHWORK_HOST_DEVICE Read queries(std::int64_t sample, std::int64_t head) const {
    return Read::of(q, at.queries, at.heads, at.key_length, sample, head);
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE Read gradients(std::int64_t sample, std::int64_t head) const {
    return Read::of(dy, at.queries, at.heads, at.value_length, sample, head);
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE Read keys(std::int64_t sample, std::int64_t head) const {
    return Read::of(k, at.keys, at.key_heads, at.key_length, sample, head);
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE Read values(std::int64_t sample, std::int64_t head) const {
    return Read::of(v, at.keys, at.key_heads, at.value_length, sample, head);
  }
  /// Scores become the probabilities that went into results, and the gradients of these become
  /// those of scores. of_query(place) says what is known of the query there.
  template <bool rows_are_queries, class OfQuery>
  MESHWORK_DEVICE void differentiate(int sample, int head, const Pairs<rows_are_queries>& pairs,
                                     const OfQuery& of_query, Tile<tile_rows>& scores,
                                     Tile<tile_rows>& gradients) const {
    const Sight sees = sight.of(sample);
    const bool all_look =
        sees.looks_at_all(pairs.first_query, rows_are_queries ? warp_rows : tile_rows,
                          pairs.first_key, rows_are_queries ? tile_rows : warp_rows);
    scores.each([&](const Place& here, float& score) {
      score = power_of_2((at.scale * score - of_query(here).logarithm) * log2_of_e);
    });
    if (!all_look) {
      scores.each(
          [&](const Place& here, float& p, float& gradient) {
            if (!sees.looks(pairs.query(here), pairs.key(here))) p = gradient = 0;
          },
          gradients);
    }
    scores.each(
        [&](const Place& here, float& p, float& gradient) {
          const float dot = of_query(here).dot;
          if constexpr (drops) {
            const float factor =
                kept(at, at.number_of(sample, head, pairs.query(here), pairs.key(here)));
            gradient = at.scale * p * (gradient * factor - dot);
            p *= factor;
          } else {
            gradient = at.scale * p * (gradient - dot);
          }
        },
        gradients);
  }
};

template <Precision precision, bool drops>
struct QueryGradients {
  static constexpr int shared_bytes = 2 * row_bytes<precision> + 2 * tile_bytes<precision>;
  Backward<drops> of;
  float* dq;

  [[nodiscard]] std::int64_t tasks() const {
    return of.at.batch * of.at.heads * parts(of.at.queries, block_rows) *
           parts(of.at.key_length, stage_columns);
  }
  MESHWORK_DEVICE void operator()(const Block& block, std::int64_t number) const {
    const AttentionShape& at = of.at;
    const Task task(number, parts(at.key_length, stage_columns), at.heads, at.batch);
    const BlockRows rows = BlockRows::from_behind(block, task.tile, at.queries);
    const std::int64_t key_head = at.key_head_of(task.head);
    const int element = task.part * stage_columns;
    const Read queries = of.queries(task.sample, task.head),
               dy = of.gradients(task.sample, task.head);
    const Read keys = of.keys(task.sample, key_head), values = of.values(task.sample, key_head);

    Held<precision, block_rows> query_stage(block, 0), gradient_stage(block, row_bytes<precision>);
    Held<precision, tile_rows> key_stage(block, 2 * row_bytes<precision>);
    Held<precision, tile_rows> value_stage(block, 2 * row_bytes<precision> + tile_bytes<precision>);
    Rows logarithms(0), dots(0);
    Rows::each([&](const Place& here) {
      if (rows.own + here.row >= at.queries) return;
      const std::int64_t query =
          (task.sample * at.heads + task.head) * at.queries + rows.own + here.row;
      logarithms[here] = of.logarithms[query], dots[here] = of.dots[query];
    });
    Tile<stage_columns> results;
    const auto end = static_cast<int>(at.keys_of(rows.end - 1).end);
    for (int key = static_cast<int>(at.keys_of(rows.first).begin) / tile_rows * tile_rows;
         key < end; key += tile_rows) {
      Tile<tile_rows> scores, gradients;
      multiply_pairs(block, rows.first, key, queries, keys, query_stage, key_stage, scores);
      multiply_pairs(block, rows.first, key, dy, values, gradient_stage, value_stage, gradients);
      of.differentiate(
          task.sample, task.head, Pairs<true>{rows.own, key},
          [&](const Place& here) {
            return QueryNumbers{logarithms[here], dots[here]};
          },
          scores, gradients);
      key_stage.prefetch(keys, key + tile_rows, end);
      value_stage.prefetch(values, key + tile_rows, end);
      add_vectors(block, gradients, key, element, keys, key_stage, results);
    }
    write(results,
          Vectors<float>::of(dq, at.queries, at.heads, at.key_length, task.sample, task.head),
          rows.own, element);
  }
};

template <Precision precision, bool drops>
struct KeyGradients {
  static constexpr int number_bytes = tile_rows * static_cast<int>(sizeof(float));
  static constexpr int shared_bytes =
      2 * row_bytes<precision> + 2 * tile_bytes<precision> + 2 * number_bytes;
  Backward<drops> of;
  float *dk, *dv;

  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t element_parts() const {
    return parts(of.at.key_length > of.at.value_length ? of.at.key_length : of.at.value_length,
                 stage_columns);
  }
  [[nodiscard]] std::int64_t tasks() const {
    return of.at.batch * of.at.key_heads * parts(of.at.keys, block_rows) * element_parts();
  }
  MESHWORK_DEVICE void operator()(const Block& block, std::int64_t number) const {
    const AttentionShape& at = of.at;
    const Task task(number, element_parts(), at.key_heads, at.batch);
    const BlockRows rows(block, task.tile, at.keys);
    const int element = task.part * stage_columns;
    const Read keys = of.keys(task.sample, task.head), values = of.values(task.sample, task.head);

    Held<precision, block_rows> key_stage(block, 0), value_stage(block, row_bytes<precision>);
    Held<precision, tile_rows> query_stage(block, 2 * row_bytes<precision>);
    Held<precision, tile_rows> gradient_stage(block,
                                              2 * row_bytes<precision> + tile_bytes<precision>);
    float* const logarithms =
        block.template shared<float>(2 * row_bytes<precision> + 2 * tile_bytes<precision>);
    float* const dots = logarithms + tile_rows;
    Tile<stage_columns> key_results, value_results;
    const AttentionShape::Range heads = at.heads_of(task.head);
    const auto end = static_cast<int>(at.queries_of(rows.end - 1).end);
    for (auto head = static_cast<int>(heads.begin); head < heads.end; ++head) {
      query_stage.forget(), gradient_stage.forget();
      const Read queries = of.queries(task.sample, head), dy = of.gradients(task.sample, head);
      for (int query = static_cast<int>(at.queries_of(rows.first).begin) / tile_rows * tile_rows;
           query < end; query += tile_rows) {
        Tile<tile_rows> scores, gradients;
        multiply_pairs(block, rows.first, query, keys, queries, key_stage, query_stage, scores);
        block.synchronize();  // behind whoever reads those of the tile before
        block.template each<tile_rows>([&](int i) {
          const bool here = query + i < at.queries;
          const std::int64_t number = (task.sample * at.heads + head) * at.queries + query + i;
          logarithms[i] = here ? of.logarithms[number] : 0.0f;
          dots[i] = here ? of.dots[number] : 0.0f;
        });
        block.synchronize();
        multiply_pairs(block, rows.first, query, values, dy, value_stage, gradient_stage,
                       gradients);
        of.differentiate(
            task.sample, head, Pairs<false>{query, rows.own},
            [&](const Place& here) {
              return QueryNumbers{logarithms[here.column], dots[here.column]};
            },
            scores, gradients);
        add_vectors(block, gradients, query, element, queries, query_stage, key_results);
        query_stage.prefetch(queries, query + tile_rows, end);
        gradient_stage.prefetch(dy, query + tile_rows, end);
        add_vectors(block, scores, query, element, dy, gradient_stage, value_results);
      }
    }
    write(key_results,
          Vectors<float>::of(dk, at.keys, at.key_heads, at.key_length, task.sample, task.head),
          rows.own, element);
    write(value_results,
          Vectors<float>::of(dv, at.keys, at.key_heads, at.value_length, task.sample, task.head),
          rows.own, element);
  }
};

/// Of each query of a head, in the order of `logarithms`.
struct Dots {
  using Fold = folds::Sum;
  AttentionShape at;
  const float *y, *dy;
  float* dots;
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t columns(std::int64_t) const {
    return at.value_length;
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE double term(std::int64_t row, std::int64_t j) const {
    const std::int64_t query = row % at.queries, head = row / at.queries % at.heads;
    const std::int64_t sample = row / at.queries / at.heads;
    const std::int64_t i = ((sample * at.queries + query) * at.heads + head) * at.value_length + j;
    return static_cast<double>(y[i]) * static_cast<double>(dy[i]);
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t row, double dot) const {
    dots[row] = static_cast<float>(dot);
  }
};

/// body of a precision, and of whether it drops, as types.
template <class Body>
KernelPointer in_types(Precision precision, float dropout, const Body& body) {
  const auto of = [&]<Precision precise>() {
    return dropout > 0 ? body.template operator()<precise, true>()
                       : body.template operator()<precise, false>();
  };
  switch (precision) {
    case Precision::bfloat16:
      return of.template operator()<Precision::bfloat16>();
    case Precision::tf32:
      return of.template operator()<Precision::tf32>();
    case Precision::float32:
      break;
  }
  return of.template operator()<Precision::float32>();
}

template <Precision precision, bool drops, bool resumed>
KernelPointer forward_kernel(const AttentionSpec& spec, const Context& context) {
  return make_kernel([spec, launcher = context.launcher](void* const* operands) {
    const int y = spec.results();
    const auto* const scalars =
        drops || resumed ? at<const StepScalars>(operands, spec.scalars()) : nullptr;
    const Forward<precision, drops, resumed> forward{
        spec.at,         Sight(spec.at, operands), Kept(spec.at.dropout, scalars),
        scalars,         at(operands, 0),          at(operands, 1),
        at(operands, 2), at(operands, y),          at(operands, y + 1)};
    for_blocks(launcher, forward.tasks(), forward);
  });
}

KernelPointer compile(const AttentionSpec& spec, const Context& context) {
  return in_types(spec.precision, spec.at.dropout, [&]<Precision precision, bool drops>() {
    return spec.at.resumed ? forward_kernel<precision, drops, true>(spec, context)
                           : forward_kernel<precision, drops, false>(spec, context);
  });
}

KernelPointer compile(const AttentionGradientSpec& spec, const Context& context) {
  const std::int64_t rows = spec.at.batch * spec.at.heads * spec.at.queries;
  return in_types(spec.precision, spec.at.dropout, [&]<Precision precision, bool drops>() {
    return make_kernel(
        [spec, rows, launcher = context.launcher](void* const* operands) {
          const AttentionShape& shape = spec.at;
          const int dq = spec.results();
          void* const* const forward = operands + spec.y();  // y, l, dy
          auto* const dots = reinterpret_cast<float*>(aligned_workspace(operands[dq + 3]));
          const Backward<drops> of{
              shape,
              Sight(shape, operands),
              Kept(shape.dropout,
                   drops ? at<const StepScalars>(operands, spec.scalars()) : nullptr),
              at(operands, 0),
              at(operands, 1),
              at(operands, 2),
              at(forward, 1),
              dots,
              at(forward, 2)};
          reduce_rows(launcher, rows, shape.value_length,
                      Dots{shape, at(forward, 0), at(forward, 2), dots});
          const QueryGradients<precision, drops> queries{of, at(operands, dq)};
          for_blocks(launcher, queries.tasks(), queries);
          const KeyGradients<precision, drops> keys{of, at(operands, dq + 1), at(operands, dq + 2)};
          for_blocks(launcher, keys.tasks(), keys);
        },
        with_alignment(rows * static_cast<std::int64_t>(sizeof(float))));
  });
}

}  // namespace

void add_attention(Kernels& kernels) {
  kernels.add<AttentionSpec, AttentionGradientSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cuda

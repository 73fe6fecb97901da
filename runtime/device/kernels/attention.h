// Scaled dot-product attention (Vaswani et al., arXiv:1706.03762), and its gradient.
//
//     p (query, key) = softmax over the keys that the query looks at of scale * q . k
//     y (query) = sum over keys of p * v
//
// Tensors are (batch, length, heads, elements): each place of a sequence has a vector a head.
// Several heads of queries may share one of keys and values. Scores are not kept for backward: a
// kernel keeps l, the logarithm of the sum of exponentials of a query's scores, of which p =
// exp(scale * q . k - l) again (Dao et al., "FlashAttention", arXiv:2205.14135).
//
// A query looks at keys by their *places*, which are global: at all of them; `causal`, at those up
// to its own place; with a `window`, at those fewer than so many places away; and, `masked`, at
// none that the mask (batch, keys; masks.h) does not count. One that looks at no key gives 0. A
// `bounded` query looks at none before its own bound (batch, queries), the place at which its
// document begins.
//
// Where a step works on a piece of sequences, `resumed`, queries stand StepScalars::position
// further on.
//
// With a `dropout` rate, each p is kept with probability 1 - rate and divided by that, else 0;
// which are kept follows from a Philox word of the element (sample, head, query, key) of all of
// them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "runtime/device/host_device.h"
#include "runtime/device/kernels/page.h"

namespace meshwork {

struct AttentionShape {
  std::int64_t batch = 0, queries = 0, keys = 0;
  std::int64_t heads = 0, key_heads = 0;          // of queries; of keys and values
  std::int64_t key_length = 0, value_length = 0;  // elements of a query and a key; of a value
  float scale = 1;
  bool causal = false;
  std::int64_t window = 0;  // 0: none
  bool masked = false;
  bool bounded = false;
  float dropout = 0;
  std::uint64_t random_key = 0;
  bool resumed = false;

  // What these are part of.
  std::int64_t first_sample = 0, first_query = 0, first_key = 0, first_head = 0, first_key_head = 0;
  std::int64_t heads_a_key_head = 1;
  std::int64_t all_heads = 0, all_queries = 0, all_keys = 0;

  /// With queries that stand `position` further on.
  [[nodiscard]] MESHWORK_HOST_DEVICE AttentionShape from(std::int64_t position) const {
    AttentionShape further = *this;
    further.first_query += position;
    further.resumed = false;
    return further;
  }
  [[nodiscard]] bool reads_scalars() const { return dropout > 0 || resumed; }
  /// Where operands stand: the bounds, and what comes behind all that says who looks where.
  [[nodiscard]] int bounds() const { return masked ? 4 : 3; }
  [[nodiscard]] int behind_values() const { return bounds() + (bounded ? 1 : 0); }

  /// A query looks at keys that stand before it by so many places: from `least` to `most`.
  struct Distances {
    std::int64_t least, most;
  };
  [[nodiscard]] MESHWORK_HOST_DEVICE Distances distances() const {
    constexpr std::int64_t any = std::int64_t{1} << 60;
    const std::int64_t most = window > 0 ? window - 1 : any;
    return {causal ? 0 : -most, most};
  }
  /// Numbers [begin, end).
  struct Range {
    std::int64_t begin, end;
    /// Those of them in [0, count).
    [[nodiscard]] MESHWORK_HOST_DEVICE Range within(std::int64_t count) const {
      const std::int64_t first = begin < 0 ? 0 : begin > count ? count : begin;
      return {first, end < first ? first : end > count ? count : end};
    }
  };
  /// The keys that a query looks at, and the queries that look at a key.
  [[nodiscard]] MESHWORK_HOST_DEVICE Range keys_of(std::int64_t query) const {
    const std::int64_t place = first_query + query - first_key;
    return Range{place - distances().most, place - distances().least + 1}.within(keys);
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE Range queries_of(std::int64_t key) const {
    const std::int64_t place = first_key + key - first_query;
    return Range{place + distances().least, place + distances().most + 1}.within(queries);
  }
  /// The head of keys and values that a head of queries looks at.
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t key_head_of(std::int64_t head) const {
    return (first_head + head) / heads_a_key_head - first_key_head;
  }
  /// The heads of queries that look at a head of keys and values.
  [[nodiscard]] MESHWORK_HOST_DEVICE Range heads_of(std::int64_t key_head) const {
    const std::int64_t first = (first_key_head + key_head) * heads_a_key_head - first_head;
    return Range{first, first + heads_a_key_head}.within(heads);
  }
  /// The number of p among all of them.
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t number_of(std::int64_t sample, std::int64_t head,
                                                            std::int64_t query,
                                                            std::int64_t key) const {
    return (((first_sample + sample) * all_heads + first_head + head) * all_queries + first_query +
            query) *
               all_keys +
           first_key + key;
  }

  /// Pairs of a query and a key that it looks at, over batch and heads; `resumed`, halfway through
  /// the sequences.
  [[nodiscard]] double pairs() const;
  [[nodiscard]] std::string text(std::string_view name) const;
  void check(const std::string& kernel) const;
};

/// Operands: q, k, v, [mask], [bounds], [StepScalars, if it `reads_scalars`], y, l (batch, heads,
/// queries).
struct AttentionSpec {
  AttentionShape at;
  Precision precision = Precision::float32;
  [[nodiscard]] std::string text() const {
    return at.text("attention") + spec::in_precision(precision);
  }
  [[nodiscard]] KernelWork work() const;
  void check() const { at.check(text()); }

  /// Where operands stand: `scalars` behind mask and bounds, `results` behind all that is read.
  [[nodiscard]] int scalars() const { return at.behind_values(); }
  [[nodiscard]] int results() const { return scalars() + (at.reads_scalars() ? 1 : 0); }
};

/// The gradients of sum(y * dy). Operands: q, k, v, [mask], [bounds], y, l, dy, [StepScalars, with
/// dropout], dq, dk, dv.
struct AttentionGradientSpec {
  AttentionShape at;
  Precision precision = Precision::float32;
  [[nodiscard]] std::string text() const {
    return at.text("attention gradient") + spec::in_precision(precision);
  }
  [[nodiscard]] KernelWork work() const;
  void check() const {
    at.check(text());
    spec::require(!at.resumed, text(), "is of a piece, of which there is no gradient");
  }

  /// Where operands stand: y behind mask and bounds, `scalars` behind dy, `results` behind all that
  /// is read.
  [[nodiscard]] int y() const { return at.behind_values(); }
  [[nodiscard]] int scalars() const { return y() + 3; }
  [[nodiscard]] int results() const { return scalars() + (at.dropout > 0 ? 1 : 0); }
};

}  // namespace meshwork

// Attention as products by the library, with a matrix of the scores of all pairs, for as many
// samples at a time as `most_scores` bytes hold, and one at least. The scores of a step are not
// kept: backward makes them again.
//
// Between the products stands one kernel, a team of threads a query: forward it makes probabilities
// of scores, backward the gradients of scores too. Heads that share one of keys read copies of it,
// and their gradients are added up in the order of the heads. Bound by FLOP for long vectors, else
// by reading and writing scores.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/device/body_kernel.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/launch.h"
#include "runtime/device/cuda/workspace.h"
#include "runtime/device/kernels/attention.h"
#include "runtime/device/kernels/step_scalars.h"
#include "runtime/device/philox.h"

namespace meshwork::cuda {

namespace {

constexpr std::int64_t most_scores = std::int64_t{256} << 20;
constexpr auto element = static_cast<std::int64_t>(sizeof(float));

/// What dropout multiplies probabilities by.
struct Kept {
  const StepScalars* scalars = nullptr;  // null: it drops nothing
  std::uint64_t least = 0;
  float factor = 1;

  Kept(float rate, const StepScalars* step)
      : scalars(step), least(least_kept_word(rate)), factor(rate < 1 ? 1 / (1 - rate) : 0) {}
  MESHWORK_HOST_DEVICE float operator()(const AttentionShape& at, std::int64_t number) const {
    if (scalars == nullptr) return 1;
    const std::uint32_t word = philox_word(at.random_key, static_cast<std::uint64_t>(number),
                                           static_cast<std::uint64_t>(scalars->step));
    return word >= least ? factor : 0.0f;
  }
};

/// A row of scores (sample, head, query), of samples from `first` on.
struct ScoreRow {
  std::int64_t sample, head, query;
  MESHWORK_HOST_DEVICE ScoreRow(const AttentionShape& at, std::int64_t first, std::int64_t row)
      : sample(first + row / at.queries / at.heads),
        head(row / at.queries % at.heads),
        query(row % at.queries) {}
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t in_rows(const AttentionShape& at) const {
    return (sample * at.heads + head) * at.queries + query;
  }
};

struct Probabilities {
  AttentionShape at;
  std::int64_t first;
  Kept kept;
  float *scores, *logarithms;
  template <class Team>
  MESHWORK_DEVICE void operator()(std::int64_t row, const Team& team) const {
    const ScoreRow of(at, first, row);
    const AttentionShape::Keys seen = at.keys_of(of.query);
    float* const s = scores + row * at.keys;
    const std::int64_t count = seen.end - seen.begin;
    const float m = team.template reduce<folds::Maximum>(
        count, [&](std::int64_t j) { return at.scale * s[seen.begin + j]; });
    const auto sum =
        static_cast<float>(team.template reduce<folds::Sum>(count, [&](std::int64_t j) {
          return static_cast<double>(expf(at.scale * s[seen.begin + j] - m));
        }));
    const float l = count > 0 ? m + logf(sum) : 0.0f;
    if (team.leads()) logarithms[of.in_rows(at)] = l;
    team.each(at.keys, [&](std::int64_t j) {
      const bool looked_at = seen.begin <= j && j < seen.end;
      s[j] = looked_at ? expf(at.scale * s[j] - l) *
                             kept(at, at.number_of(of.sample, of.head, of.query, j))
                       : 0.0f;
    });
  }
};

/// Scores become probabilities, and the gradients of these become those of scores.
struct ScoreGradients {
  AttentionShape at;
  std::int64_t first;
  Kept kept;
  float *scores, *gradients;
  const float *logarithms, *y, *dy;
  template <class Team>
  MESHWORK_DEVICE void operator()(std::int64_t row, const Team& team) const {
    const ScoreRow of(at, first, row);
    const AttentionShape::Keys seen = at.keys_of(of.query);
    const std::int64_t values =
        ((of.sample * at.queries + of.query) * at.heads + of.head) * at.value_length;
    const auto dot =
        static_cast<float>(team.template reduce<folds::Sum>(at.value_length, [&](std::int64_t j) {
          return static_cast<double>(y[values + j]) * static_cast<double>(dy[values + j]);
        }));
    const float l = logarithms[of.in_rows(at)];
    float* const s = scores + row * at.keys;
    float* const ds = gradients + row * at.keys;
    team.each(at.keys, [&](std::int64_t j) {
      const bool looked_at = seen.begin <= j && j < seen.end;
      const float factor =
          looked_at ? kept(at, at.number_of(of.sample, of.head, of.query, j)) : 0.0f;
      const float p = looked_at ? expf(at.scale * s[j] - l) : 0.0f;
      ds[j] = looked_at ? at.scale * p * (ds[j] * factor - dot) : 0.0f;
      s[j] = p * factor;
    });
  }
};

/// y (places, heads, elements) = of each head of queries, the head of keys that it looks at.
struct Spread {
  AttentionShape at;
  std::int64_t elements;
  const float* x;
  float* y;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t head = i / elements % at.heads, place = i / elements / at.heads;
    y[i] = x[(place * at.key_heads + at.key_head_of(head)) * elements + i % elements];
  }
};
/// The other way: sums over the heads of queries.
struct Gather {
  AttentionShape at;
  std::int64_t elements;
  const float* y;
  float* x;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t key_head = i / elements % at.key_heads, place = i / elements / at.key_heads;
    float sum = 0;
    for (std::int64_t head = 0; head < at.heads; ++head) {
      if (at.key_head_of(head) == key_head) {
        sum += y[(place * at.heads + head) * elements + i % elements];
      }
    }
    x[i] = sum;
  }
};

/// The products for some samples. Of a matrix (samples, heads, rows, columns) of scores and tensors
/// (samples, places, heads, elements).
struct Products {
  KernelPointer scores, values, value_gradients, probability_gradients, query_gradients,
      key_gradients;
};

class Samples {
 public:
  Samples(const AttentionShape& at, Precision precision, const Context& context, bool backward)
      : at_(at) {
    const std::int64_t of_sample = at.heads * at.queries * at.keys * element;
    most_ = std::clamp<std::int64_t>(most_scores / std::max<std::int64_t>(of_sample, 1), 1,
                                     std::max<std::int64_t>(at.batch, 1));
    for (std::int64_t first = 0; first < at.batch; first += most_) {
      const std::int64_t samples = std::min(most_, at.batch - first);
      pieces_.push_back(products(samples, precision, context, backward));
    }
    scores_ = rounded_up(most_ * of_sample);
    keys_ = grouped() ? rounded_up(most_ * at.keys * at.heads * at.key_length * element) : 0;
    values_ = grouped() ? rounded_up(most_ * at.keys * at.heads * at.value_length * element) : 0;
  }

  /// Whether a head of queries looks at a head of keys with another number.
  [[nodiscard]] bool grouped() const {
    return at_.heads_a_key_head > 1 || at_.key_heads != at_.heads || at_.key_head_of(0) != 0;
  }
  [[nodiscard]] bool empty() const {
    return at_.batch * at_.queries * at_.keys * at_.heads * at_.key_length * at_.value_length == 0;
  }
  [[nodiscard]] std::int64_t bytes(int matrices) const {
    return with_alignment(matrices * (scores_ + keys_ + values_) + inner_);
  }
  /// body(products, first sample, samples)
  template <class Body>
  void each(const Body& body) const {
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const std::int64_t first = static_cast<std::int64_t>(i) * most_;
      body(pieces_[i], first, std::min(most_, at_.batch - first));
    }
  }
  [[nodiscard]] std::int64_t scores_bytes() const { return scores_; }
  [[nodiscard]] std::int64_t keys_bytes() const { return keys_; }
  [[nodiscard]] std::int64_t values_bytes() const { return values_; }

 private:
  Products products(std::int64_t n, Precision precision, const Context& context, bool backward) {
    const std::int64_t q = at_.queries, k = at_.keys, h = at_.heads, e = at_.key_length,
                       f = at_.value_length, matrix = q * k;
    const auto made = [&](MatmulSpec spec, MatmulRepeat samples, MatmulRepeat heads) {
      spec.precision = precision;
      samples.count = n, heads.count = h;
      spec.repeats = {samples, heads};
      KernelPointer product = compile(spec, context);
      inner_ = std::max(inner_, product->workspace_bytes());
      return product;
    };
    Products all;
    if (empty()) return all;
    all.scores =
        made({.m = q, .n = k, .k = e, .transpose_b = true, .a_row = h * e, .b_row = h * e},
             {.a = q * h * e, .b = k * h * e, .c = h * matrix}, {.a = e, .b = e, .c = matrix});
    if (!backward) {
      all.values =
          made({.m = q, .n = f, .k = k, .b_row = h * f, .c_row = h * f},
               {.a = h * matrix, .b = k * h * f, .c = q * h * f}, {.a = matrix, .b = f, .c = f});
      return all;
    }
    all.probability_gradients =
        made({.m = q, .n = k, .k = f, .transpose_b = true, .a_row = h * f, .b_row = h * f},
             {.a = q * h * f, .b = k * h * f, .c = h * matrix}, {.a = f, .b = f, .c = matrix});
    all.value_gradients =
        made({.m = k, .n = f, .k = q, .transpose_a = true, .b_row = h * f, .c_row = h * f},
             {.a = h * matrix, .b = q * h * f, .c = k * h * f}, {.a = matrix, .b = f, .c = f});
    all.query_gradients =
        made({.m = q, .n = e, .k = k, .b_row = h * e, .c_row = h * e},
             {.a = h * matrix, .b = k * h * e, .c = q * h * e}, {.a = matrix, .b = e, .c = e});
    all.key_gradients =
        made({.m = k, .n = e, .k = q, .transpose_a = true, .b_row = h * e, .c_row = h * e},
             {.a = h * matrix, .b = q * h * e, .c = k * h * e}, {.a = matrix, .b = e, .c = e});
    return all;
  }

  AttentionShape at_;
  std::int64_t most_ = 1, scores_ = 0, keys_ = 0, values_ = 0, inner_ = 0;
  std::vector<Products> pieces_;
};

void multiply(const KernelPointer& product, const float* a, const float* b, float* c, void* room) {
  const std::array<void*, 4> operands{const_cast<float*>(a), const_cast<float*>(b), c, room};
  product->run(operands.data());
}

/// Pieces of a workspace.
struct Workspace {
  std::byte* next;
  float* take(std::int64_t bytes) {
    auto* const piece = reinterpret_cast<float*>(next);
    next += bytes;
    return piece;
  }
};

/// Where the tensors of some samples begin.
struct Offsets {
  std::int64_t q, k, v, y;
  Offsets(const AttentionShape& at, std::int64_t first)
      : q(first * at.queries * at.heads * at.key_length),
        k(first * at.keys * at.key_heads * at.key_length),
        v(first * at.keys * at.key_heads * at.value_length),
        y(first * at.queries * at.heads * at.value_length) {}
};

/// x, or copies of its heads of keys for all heads of queries.
const float* for_all_heads(const Launcher& launcher, const AttentionShape& at, bool grouped,
                           std::int64_t samples, std::int64_t elements, const float* x,
                           float* room) {
  if (!grouped) return x;
  for_elements(launcher, samples * at.keys * at.heads * elements, Spread{at, elements, x, room});
  return room;
}

KernelPointer compile(const AttentionSpec& spec, const Context& context) {
  Samples samples(spec.at, spec.precision, context, false);
  const std::int64_t bytes = samples.bytes(1);
  return make_kernel(
      [at_ = spec.at, samples = std::move(samples),
       launcher = context.launcher](void* const* operands) {
        const bool drops = at_.dropout > 0;
        const int y = drops ? 4 : 3;
        const std::int64_t rows = at_.batch * at_.queries * at_.heads;
        if (samples.empty()) {
          zero_bytes(launcher, operands[y], rows * at_.value_length * element);
          zero_bytes(launcher, operands[y + 1], rows * element);
          return;
        }
        const Kept kept(at_.dropout, drops ? at<const StepScalars>(operands, 3) : nullptr);
        samples.each([&](const Products& products, std::int64_t first, std::int64_t count) {
          Workspace room{aligned_workspace(operands[y + 2])};
          float* const scores = room.take(samples.scores_bytes());
          float* const key_room = room.take(samples.keys_bytes());
          float* const value_room = room.take(samples.values_bytes());
          const Offsets from(at_, first);
          const float* const k = for_all_heads(launcher, at_, samples.grouped(), count,
                                               at_.key_length, at(operands, 1) + from.k, key_room);
          const float* const v =
              for_all_heads(launcher, at_, samples.grouped(), count, at_.value_length,
                            at(operands, 2) + from.v, value_room);
          multiply(products.scores, at(operands, 0) + from.q, k, scores, room.next);
          for_teams(launcher, count * at_.heads * at_.queries, at_.keys,
                    Probabilities{at_, first, kept, scores, at(operands, y + 1)});
          multiply(products.values, scores, v, at(operands, y) + from.y, room.next);
        });
      },
      bytes);
}

KernelPointer compile(const AttentionGradientSpec& spec, const Context& context) {
  Samples samples(spec.at, spec.precision, context, true);
  const std::int64_t bytes = samples.bytes(2);
  return make_kernel(
      [at_ = spec.at, samples = std::move(samples),
       launcher = context.launcher](void* const* operands) {
        const bool drops = at_.dropout > 0;
        const int dq = drops ? 7 : 6;
        if (samples.empty()) {
          const Offsets all(at_, at_.batch);
          zero_bytes(launcher, operands[dq], all.q * element);
          zero_bytes(launcher, operands[dq + 1], all.k * element);
          zero_bytes(launcher, operands[dq + 2], all.v * element);
          return;
        }
        const Kept kept(at_.dropout, drops ? at<const StepScalars>(operands, 6) : nullptr);
        samples.each([&](const Products& products, std::int64_t first, std::int64_t count) {
          Workspace room{aligned_workspace(operands[dq + 3])};
          float* const scores = room.take(samples.scores_bytes());
          float* const gradients = room.take(samples.scores_bytes());
          float* const key_room = room.take(samples.keys_bytes());
          float* const value_room = room.take(samples.values_bytes());
          float* const key_sums = room.take(samples.keys_bytes());
          float* const value_sums = room.take(samples.values_bytes());
          const Offsets from(at_, first);
          const bool grouped = samples.grouped();
          const float* const q = at(operands, 0) + from.q;
          const float* const dy = at(operands, 5) + from.y;
          const float* const k = for_all_heads(launcher, at_, grouped, count, at_.key_length,
                                               at(operands, 1) + from.k, key_room);
          const float* const v = for_all_heads(launcher, at_, grouped, count, at_.value_length,
                                               at(operands, 2) + from.v, value_room);
          float* const dk = at(operands, dq + 1) + from.k;
          float* const dv = at(operands, dq + 2) + from.v;
          multiply(products.scores, q, k, scores, room.next);
          multiply(products.probability_gradients, dy, v, gradients, room.next);
          for_teams(launcher, count * at_.heads * at_.queries, at_.keys,
                    ScoreGradients{at_, first, kept, scores, gradients, at(operands, 4),
                                   at(operands, 3), at(operands, 5)});
          multiply(products.value_gradients, scores, dy, grouped ? value_sums : dv, room.next);
          multiply(products.query_gradients, gradients, k, at(operands, dq) + from.q, room.next);
          multiply(products.key_gradients, gradients, q, grouped ? key_sums : dk, room.next);
          if (!grouped) return;
          const std::int64_t key_vectors = count * at_.keys * at_.key_heads;
          for_elements(launcher, key_vectors * at_.key_length,
                       Gather{at_, at_.key_length, key_sums, dk});
          for_elements(launcher, key_vectors * at_.value_length,
                       Gather{at_, at_.value_length, value_sums, dv});
        });
      },
      bytes);
}

}  // namespace

void add_attention(Kernels& kernels) {
  kernels.add<AttentionSpec, AttentionGradientSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cuda

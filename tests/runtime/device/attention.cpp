#include "runtime/device/kernels/attention.h"

#include <cmath>
#include <limits>

#include "runtime/device/kernels/step_scalars.h"
#include "runtime/device/philox.h"
#include "tests/runtime/device/support.h"

namespace meshwork::test::attention_test {

namespace {

constexpr std::int64_t step = 5;

struct Numbers {
  std::vector<float> q, k, v, dy, mask, bounds;
  explicit Numbers(const AttentionShape& at)
      : q(random_values(at.batch * at.queries * at.heads * at.key_length, 1, -2, 2)),
        k(random_values(at.batch * at.keys * at.key_heads * at.key_length, 2, -2, 2)),
        v(random_values(at.batch * at.keys * at.key_heads * at.value_length, 3)),
        dy(random_values(at.batch * at.queries * at.heads * at.value_length, 4)),
        mask(random_values(at.batch * at.keys, 5, 0, 1)),
        bounds(random_values(at.batch * at.queries, 6, 0, 1)) {
    for (float& m : mask) m = m < 0.4f ? 0.0f : 1.0f;
    // Also behind all keys, and before them.
    for (float& bound : bounds) {
      bound = std::floor(bound * static_cast<float>(at.keys + 4)) +
              static_cast<float>(at.first_key - 2);
    }
  }
};

struct Truth {
  std::vector<double> y, dq, dk, dv;
};

// The formula of the page's comment, by all pairs of global places, and the gradients of sum(y *
// dy).
Truth truth_of(const AttentionShape& at, const Numbers& of) {
  Truth truth{std::vector<double>(of.dy.size()), std::vector<double>(of.q.size()),
              std::vector<double>(of.k.size()), std::vector<double>(of.v.size())};
  const auto row = [](std::int64_t sample, std::int64_t length, std::int64_t place,
                      std::int64_t heads, std::int64_t head, std::int64_t elements) {
    return static_cast<std::size_t>(((sample * length + place) * heads + head) * elements);
  };
  for (std::int64_t b = 0; b < at.batch; ++b) {
    for (std::int64_t h = 0; h < at.heads; ++h) {
      const std::int64_t g = (at.first_head + h) / at.heads_a_key_head - at.first_key_head;
      for (std::int64_t i = 0; i < at.queries; ++i) {
        const std::size_t q = row(b, at.queries, i, at.heads, h, at.key_length);
        const std::size_t y = row(b, at.queries, i, at.heads, h, at.value_length);
        std::vector<double> p(static_cast<std::size_t>(at.keys)), dp(p.size()), kept(p.size());
        double sum = 0;
        for (std::int64_t j = 0; j < at.keys; ++j) {
          const std::int64_t query = at.first_query + i, key = at.first_key + j;
          if (at.causal && key > query) continue;
          if (at.window > 0 && std::abs(query - key) >= at.window) continue;
          if (at.bounded &&
              static_cast<float>(key) < of.bounds[static_cast<std::size_t>(b * at.queries + i)]) {
            continue;
          }
          if (at.masked && of.mask[static_cast<std::size_t>(b * at.keys + j)] == 0) continue;
          double score = 0;
          const std::size_t k = row(b, at.keys, j, at.key_heads, g, at.key_length);
          for (std::size_t e = 0; e < static_cast<std::size_t>(at.key_length); ++e) {
            score += static_cast<double>(of.q[q + e]) * static_cast<double>(of.k[k + e]);
          }
          p[static_cast<std::size_t>(j)] = std::exp(static_cast<double>(at.scale) * score);
          sum += p[static_cast<std::size_t>(j)];
        }
        double dot = 0;
        for (std::size_t j = 0; j < p.size(); ++j) {
          if (sum > 0) p[j] /= sum;
          const std::int64_t number =
              (((at.first_sample + b) * at.all_heads + at.first_head + h) * at.all_queries +
               at.first_query + i) *
                  at.all_keys +
              at.first_key + static_cast<std::int64_t>(j);
          const double rate = static_cast<double>(at.dropout);
          const double word = philox_word(at.random_key, static_cast<std::uint64_t>(number), step);
          kept[j] = rate == 0 ? 1 : word >= rate * 4294967296.0 ? 1 / (1 - rate) : 0;
          const std::size_t v =
              row(b, at.keys, static_cast<std::int64_t>(j), at.key_heads, g, at.value_length);
          for (std::size_t e = 0; e < static_cast<std::size_t>(at.value_length); ++e) {
            truth.y[y + e] += p[j] * kept[j] * static_cast<double>(of.v[v + e]);
            truth.dv[v + e] += p[j] * kept[j] * static_cast<double>(of.dy[y + e]);
            dp[j] += kept[j] * static_cast<double>(of.v[v + e]) * static_cast<double>(of.dy[y + e]);
          }
          dot += p[j] * dp[j];
        }
        for (std::size_t j = 0; j < p.size(); ++j) {
          const double ds = static_cast<double>(at.scale) * p[j] * (dp[j] - dot);
          const std::size_t k =
              row(b, at.keys, static_cast<std::int64_t>(j), at.key_heads, g, at.key_length);
          for (std::size_t e = 0; e < static_cast<std::size_t>(at.key_length); ++e) {
            truth.dq[q + e] += ds * static_cast<double>(of.k[k + e]);
            truth.dk[k + e] += ds * static_cast<double>(of.q[q + e]);
          }
        }
      }
    }
  }
  return truth;
}

struct Results {
  std::vector<float> y, dq, dk, dv;
  bool operator==(const Results&) const = default;
};

Results results_of(const AttentionShape& at, const Numbers& of, int threads,
                   Precision precision = Precision::float32) {
  Array<> q(of.q), k(of.k), v(of.v), dy(of.dy), mask(of.mask), bounds(of.bounds);
  Array<> y(static_cast<std::int64_t>(of.dy.size())), l(at.batch * at.heads * at.queries);
  Array<> dq(static_cast<std::int64_t>(of.q.size())), dk(static_cast<std::int64_t>(of.k.size())),
      dv(static_cast<std::int64_t>(of.v.size()));
  Array<StepScalars> scalars({StepScalars{step, 0}});
  std::vector<void*> forward{q.data(), k.data(), v.data()};
  if (at.masked) forward.push_back(mask.data());
  if (at.bounded) forward.push_back(bounds.data());
  std::vector<void*> backward = forward;
  for (void* operand : {y.data(), l.data(), dy.data()}) backward.push_back(operand);
  if (at.dropout > 0) {
    forward.push_back(scalars.data());
    backward.push_back(scalars.data());
  }
  for (void* operand : {y.data(), l.data()}) forward.push_back(operand);
  for (void* operand : {dq.data(), dk.data(), dv.data()}) backward.push_back(operand);
  run_kernel(AttentionSpec{at, precision}, forward, threads);
  run_kernel(AttentionGradientSpec{at, precision}, backward, threads);
  CHECK((y.intact() && l.intact() && dq.intact() && dk.intact() && dv.intact()));
  return {y.values(), dq.values(), dk.values(), dv.values()};
}

void check(const AttentionShape& at, const Numbers& numbers) {
  INFO(AttentionSpec{at}.text() << ", window " << at.window << ", queries from " << at.first_query
                                << ", keys from " << at.first_key << ", dropout " << at.dropout);
  const Truth truth = truth_of(at, numbers);
  const Results results = results_of(at, numbers, 1);
  check_close(results.y, truth.y, 2e-5, 1e-5);
  check_close(results.dq, truth.dq, 5e-5, 5e-5);
  check_close(results.dk, truth.dk, 5e-5, 5e-5);
  check_close(results.dv, truth.dv, 5e-5, 5e-5);
  for (const int threads : {2, 5, 16}) CHECK(results_of(at, numbers, threads) == results);
}
void check(const AttentionShape& at) {
  check(at, Numbers(at));
}

AttentionShape whole(std::int64_t batch, std::int64_t queries, std::int64_t keys,
                     std::int64_t heads, std::int64_t key_heads, std::int64_t key_length,
                     std::int64_t value_length) {
  return {.batch = batch,
          .queries = queries,
          .keys = keys,
          .heads = heads,
          .key_heads = key_heads,
          .key_length = key_length,
          .value_length = value_length,
          .scale = 0.4f,
          .heads_a_key_head = key_heads > 0 ? heads / key_heads : 1,
          .all_heads = heads,
          .all_queries = queries,
          .all_keys = keys};
}

}  // namespace

TEST_CASE("attention and its gradients are what the formula says, on any number of threads") {
  check(whole(2, 5, 7, 3, 3, 4, 6));
  check(whole(1, 130, 70, 2, 2, 16, 32));
  check(whole(2, 65, 129, 1, 1, 33, 5));
  check(whole(1, 600, 70, 2, 1, 8, 8));  // more tiles of queries than share a tile of keys
  check(whole(3, 1, 1, 2, 2, 1, 1));
  check(whole(1, 64, 64, 2, 2, 64, 64));
  check(whole(1, 33, 70, 2, 1, 130, 70));  // longer than a tile
  check(whole(1, 20, 30, 1, 1, 8, 129));
  check(whole(0, 4, 4, 2, 2, 8, 8));
  check(whole(2, 0, 4, 2, 2, 8, 8));
  check(whole(2, 4, 0, 2, 2, 8, 8));
}

TEST_CASE("scores that are far apart, large or infinite have the weights of the formula") {
  AttentionShape at = whole(1, 3, 130, 1, 1, 1, 1);
  at.scale = 1;
  Numbers numbers(at);
  std::ranges::fill(numbers.q, 1.0f);
  // Each is -1000 less 100 times another number; the greatest stands in the second tile.
  for (int j = 0; j < 130; ++j) {
    numbers.k[static_cast<std::size_t>(j)] =
        -1000 - 100.0f * static_cast<float>((j + 50) * 37 % 130);
  }
  const auto values = [&](float y) { return std::vector<float>(3, y); };
  CHECK(results_of(at, numbers, 1).y == values(numbers.v[80]));
  numbers.k[80] = -std::numeric_limits<float>::infinity();
  CHECK(results_of(at, numbers, 1).y == values(numbers.v[(80 + 123) % 130]));
}

// Each factor of a product is off by this much at most, and results are products of three.
TEST_CASE("attention in another precision differs by the rounding of factors") {
  AttentionShape at = whole(2, 100, 100, 4, 2, 64, 48);
  at.causal = true, at.scale = 0.125f, at.dropout = 0.1f, at.random_key = 17;
  const Numbers numbers(at);
  const Truth truth = truth_of(at, numbers);
  for (const auto& [precision, rounding] :
       {std::pair{Precision::tf32, 0x1p-10}, std::pair{Precision::bfloat16, 0x1p-8}}) {
    INFO(name_of(precision));
    const Results results = results_of(at, numbers, 1, precision);
    check_close(results.y, truth.y, 4 * rounding, 4 * rounding);
    check_close(results.dq, truth.dq, 4 * rounding, 8 * rounding);
    check_close(results.dk, truth.dk, 4 * rounding, 8 * rounding);
    check_close(results.dv, truth.dv, 4 * rounding, 8 * rounding);
  }
}

TEST_CASE("a query of causal attention looks at no key behind it, and a window bounds the others") {
  for (const std::int64_t window : {0, 1, 5, 70}) {
    for (const bool causal : {false, true}) {
      AttentionShape at = whole(1, 140, 140, 2, 2, 8, 16);
      at.causal = causal;
      at.window = window;
      check(at);
    }
  }
}

TEST_CASE("no query looks at a key that the mask does not count") {
  AttentionShape at = whole(2, 70, 130, 4, 2, 8, 16);
  at.masked = true;
  check(at);
  at.dropout = 0.3f, at.random_key = 17;
  check(at);
  at = whole(2, 140, 140, 2, 2, 33, 5);
  at.masked = true, at.causal = true, at.window = 70;
  check(at);
  // Of the first sample no key counts, of the second only the last, in a tile of its own.
  at = whole(2, 5, 129, 2, 1, 8, 8);
  at.masked = true;
  Numbers numbers(at);
  std::fill(numbers.mask.begin(), numbers.mask.end(), 0.0f);
  numbers.mask.back() = 1;
  check(at, numbers);
}

TEST_CASE("a bounded query looks at no key before its bound") {
  for (const bool masked : {false, true}) {
    for (const bool causal : {false, true}) {
      AttentionShape at = whole(2, 140, 140, 4, 2, 8, 16);
      at.bounded = true, at.masked = masked, at.causal = causal;
      check(at);
      at.queries = 1, at.first_query = 100;
      check(at);
      at.queries = 40, at.first_query = 90, at.first_key = 30, at.dropout = 0.2f;
      at.random_key = 17, at.all_queries = at.all_keys = 200;
      check(at);
    }
  }
}

TEST_CASE("queries of a document look at its keys alone, and some at none") {
  AttentionShape at = whole(2, 140, 140, 4, 2, 8, 16);
  at.bounded = true, at.causal = true;
  Numbers numbers(at);
  // The first sample has documents of 20 places, the second of 90; queries between 32 and 64 of the
  // second look at nothing, and so do whole strips of a tile.
  for (std::int64_t query = 0; query < at.queries; ++query) {
    const auto i = static_cast<std::size_t>(query);
    numbers.bounds[i] = static_cast<float>(query / 20 * 20);
    numbers.bounds[140 + i] =
        query >= 32 && query < 64 ? 140.0f : static_cast<float>(query / 90 * 90);
  }
  check(at, numbers);
}

TEST_CASE("heads of queries share heads of keys in groups") {
  check(whole(2, 9, 70, 6, 2, 8, 16));
  check(whole(1, 70, 9, 4, 1, 5, 3));
  // The second to fifth of eight heads, three of which share one of keys.
  AttentionShape at = whole(2, 9, 11, 4, 2, 8, 16);
  at.heads_a_key_head = 3, at.first_head = 1, at.all_heads = 9;
  check(at);
}

TEST_CASE("dropout of attention follows the places of queries and keys among all of them") {
  for (const float rate : {0.3f, 1.0f}) {
    AttentionShape at = whole(2, 70, 75, 2, 2, 8, 16);
    at.dropout = rate, at.random_key = 17;
    check(at);
    at.causal = true;
    at.first_sample = 3, at.first_query = 9, at.first_key = 4, at.first_head = 1;
    at.first_key_head = 1, at.all_heads = 5, at.all_queries = 83, at.all_keys = 83;
    check(at);
  }
}

TEST_CASE("a block of queries gives what the same queries give among all of them") {
  AttentionShape at = whole(1, 30, 70, 2, 2, 8, 16);
  at.causal = true;
  at.first_query = 45, at.first_key = 10, at.all_queries = 200, at.all_keys = 200;
  check(at);
  at.window = 20;
  check(at);
  // No key of the first queries is here.
  at.first_key = 60, at.window = 0;
  check(at);
}

// Behind the piece nothing is kept yet: NaN there must not be looked at.
TEST_CASE("queries of a piece look at what was kept up to their own positions") {
  for (const std::int64_t queries : {0, 1, 3, 70}) {
    for (const std::int64_t position : {0, 5, 60, 100}) {
      for (const std::int64_t window : {0, 40}) {
        AttentionShape piece = whole(2, queries, 170, 4, 2, 16, 20);
        piece.causal = true, piece.window = window;
        piece.masked = window > 0, piece.bounded = window > 0 && position > 0;
        const Numbers numbers(piece);
        AttentionShape there = piece;
        there.first_query = position;
        INFO(queries << " queries from " << position << " on, window " << window);
        const Truth truth = truth_of(there, numbers);
        piece.resumed = true;

        const auto behind = [&](std::vector<float> values) {
          const std::size_t row = values.size() / 340;  // of 170 positions of two samples
          for (std::size_t i = 0; i < values.size(); ++i) {
            if (static_cast<std::int64_t>(i / row % 170) >= position + queries) {
              values[i] = std::numeric_limits<float>::quiet_NaN();
            }
          }
          return values;
        };
        Array<> q(numbers.q), k(behind(numbers.k)), v(behind(numbers.v)), mask(numbers.mask),
            bounds(numbers.bounds);
        Array<> y(static_cast<std::int64_t>(numbers.dy.size())), l(2 * 4 * queries);
        Array<StepScalars> scalars({StepScalars{.position = position}});
        std::vector<void*> operands{q.data(), k.data(), v.data()};
        if (piece.masked) operands.push_back(mask.data());
        if (piece.bounded) operands.push_back(bounds.data());
        for (void* operand : {static_cast<void*>(scalars.data()), static_cast<void*>(y.data()),
                              static_cast<void*>(l.data())}) {
          operands.push_back(operand);
        }
        run_kernel(AttentionSpec{piece}, operands, 2);
        CHECK((y.intact() && l.intact()));
        check_close(y.values(), truth.y, 2e-5, 1e-5);
      }
    }
  }
}

TEST_CASE("there is no gradient of attention of a piece") {
  AttentionShape piece = whole(1, 2, 4, 1, 1, 2, 2);
  piece.resumed = true;
  CHECK_THROWS_WITH(KernelSpec(AttentionGradientSpec{piece}).check(),
                    Catch::Contains("of which there is no gradient"));
}

}  // namespace meshwork::test::attention_test

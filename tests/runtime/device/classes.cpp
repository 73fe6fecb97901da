// Cross-entropies and ranking over classes: each is computed once with all classes in one place and
// once split over three ranks of unequal columns, one of which has none, whose parts the test adds
// up as the collectives would; both are compared with the formulas of the headers in double.
#include <algorithm>
#include <functional>
#include <limits>

#include "runtime/device/kernels/classes.h"
#include "runtime/device/kernels/rows.h"
#include "runtime/shape/block.h"
#include "tests/runtime/device/support.h"

namespace meshwork::test::classes_test {

namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

struct Problem {
  std::int64_t rows, classes;
  TargetKind kind;
  float smoothing;
  std::vector<float> scores, targets;
  std::int64_t rows_a_weight = 0;
  std::vector<float> row_weights = {};

  [[nodiscard]] double score(std::int64_t row, std::int64_t j) const {
    return static_cast<double>(scores[static_cast<std::size_t>(row * classes + j)]);
  }
  /// The smoothed weight of a class, times the row's.
  [[nodiscard]] double weight(std::int64_t row, std::int64_t j) const {
    const auto at = static_cast<std::size_t>(row);
    const double given =
        kind == TargetKind::sparse
            ? (static_cast<std::int64_t>(targets[at]) == j ? 1.0 : 0.0)
            : static_cast<double>(targets[static_cast<std::size_t>(row * classes + j)]);
    const double s = static_cast<double>(smoothing);
    return (given * (1 - s) + s / static_cast<double>(classes)) * row_weight(row);
  }
  [[nodiscard]] double row_weight(std::int64_t row) const {
    return rows_a_weight == 0
               ? 1
               : static_cast<double>(row_weights[static_cast<std::size_t>(row / rows_a_weight)]);
  }
  /// The same with weights, of which the first is 0.
  [[nodiscard]] Problem weighted(std::int64_t rows_of_one) const {
    Problem other = *this;
    other.rows_a_weight = rows_of_one;
    other.row_weights = random_values(rows / rows_of_one, 4, 0.2, 1.5);
    if (!other.row_weights.empty()) other.row_weights[0] = 0;
    return other;
  }
};

std::vector<Problem> problems(double low, double high) {
  std::vector<Problem> all;
  for (const std::int64_t rows : {0, 1, 5}) {
    for (const std::int64_t classes : {1, 2, 10, 35}) {
      for (const TargetKind kind : {TargetKind::sparse, TargetKind::dense}) {
        for (const float smoothing : {0.0f, 0.1f}) {
          Problem problem{
              rows, classes, kind, smoothing, random_values(rows * classes, 1, low, high), {}};
          if (kind == TargetKind::sparse) {
            for (std::int64_t row = 0; row < rows; ++row) {
              problem.targets.push_back(static_cast<float>((row * 7 + 3) % classes));
            }
          } else {
            problem.targets = random_values(rows * classes, 2, 0, 1);
          }
          all.push_back(problem);
          if (rows % 5 == 0) all.push_back(problem.weighted(5));
          all.push_back(problem.weighted(1));
        }
      }
    }
  }
  return all;
}

/// Where ranks cut the classes: all in one, and in unequal pieces with an empty one.
std::vector<std::vector<Range>> splits(std::int64_t classes) {
  const std::int64_t third = classes / 3;
  return {{{0, classes}}, {{0, third}, {third, third}, {third, classes}}};
}

/// Class numbers, as int32, or weights.
struct Targets {
  TargetKind kind;
  Array<std::int32_t> numbers;
  Array<> weights;
  [[nodiscard]] void* data() {
    return kind == TargetKind::sparse ? static_cast<void*>(numbers.data()) : weights.data();
  }
  [[nodiscard]] bool intact() const { return numbers.intact() && weights.intact(); }
};

Array<std::int32_t> class_numbers(const std::vector<float>& targets) {
  std::vector<std::int32_t> numbers;
  for (const float target : targets) {
    numbers.push_back(target == target ? static_cast<std::int32_t>(target)
                                       : std::numeric_limits<std::int32_t>::min());
  }
  return numbers;
}

/// What one rank holds of a problem.
struct Part {
  ClassColumns at;
  Array<> scores;
  Targets targets;
  Array<> weights;  // of rows, if there are any
};

/// Runs what begins with the operands of `part`.
template <class... Others>
void run_on(Part& part, const KernelSpec& spec, Others&... others) {
  if (part.at.weighted()) {
    run(spec, part.scores, part.targets, part.weights, others...);
  } else {
    run(spec, part.scores, part.targets, others...);
  }
}

Part part_of(const Problem& problem, const Range& range) {
  const auto cut = [&](const std::vector<float>& whole) {
    std::vector<float> columns;
    for (std::int64_t row = 0; row < problem.rows; ++row) {
      const auto line = whole.begin() + row * problem.classes;
      columns.insert(columns.end(), line + range.begin, line + range.end);
    }
    return columns;
  };
  ClassColumns at;
  at.rows = problem.rows;
  at.columns = range.length();
  at.first_class = range.begin;
  at.classes = problem.classes;
  at.target = problem.kind;
  at.smoothing = problem.smoothing;
  at.rows_a_weight = problem.rows_a_weight;
  const bool sparse = problem.kind == TargetKind::sparse;
  return {at,
          cut(problem.scores),
          {problem.kind, class_numbers(sparse ? problem.targets : std::vector<float>()),
           sparse ? std::vector<float>() : cut(problem.targets)},
          problem.row_weights};
}

/// Adds `part` to `total`, element by element, as an all-reduce would.
template <class T>
void add_to(Array<T>& total, const Array<T>& part) {
  for (std::size_t i = 0; i < total.size(); ++i) total[i] += part[i];
}

Array<> zeros(std::int64_t count) {
  return Array<>(std::vector<float>(static_cast<std::size_t>(count)));
}

/// Of rows with all their classes here, what the kernels for split classes give, one by one.
struct Separately {
  Array<double> loss = std::vector<double>{-1};
  Array<> dx;
  std::vector<double> within;  // by k of 0, 1, 3

  Separately(const Problem& problem, Crossentropy crossentropy, float scale)
      : dx(problem.rows * problem.classes) {
    Part part = part_of(problem, {0, problem.classes});
    const std::int64_t rows = problem.rows, columns = problem.classes;
    Array<> m(rows), z(3 * rows), u(rows), v(rows);
    Array<std::int32_t> numbers(rows), c(rows);
    if (crossentropy == Crossentropy::of_logits) {
      run(RowMaximumSpec{rows, columns}, part.scores, m);
      run_on(part, LogitStatisticsSpec{part.at}, m, z);
      run(LogitLossSpec{rows}, z, loss);
      run_on(part, LogitGradientSpec{part.at, scale}, m, z, dx);
    } else {
      run(RowSumSpec{rows, columns}, part.scores, m);
      run_on(part, ProbabilityLossSpec{part.at}, m, loss, u);
      run_on(part, ProbabilityGradientSpec{part.at, scale}, m, u, dx);
    }
    ClassColumns sparse = part.at;
    sparse.target = TargetKind::sparse;
    sparse.rows_a_weight = 0;
    Array<std::int32_t>* target = &part.targets.numbers;
    if (problem.kind == TargetKind::dense) {
      run(RowMaximumSpec{rows, columns}, part.targets.weights, m);
      run(FirstMaximumSpec{sparse}, part.targets.weights, m, numbers);
      target = &numbers;
    }
    run(TargetValueSpec{sparse}, part.scores, *target, v);
    run(CountAheadSpec{sparse}, part.scores, *target, v, c);
    for (const std::int64_t k : {0, 1, 3}) {
      Array<double> n(1);
      run(CountBelowSpec{rows, k}, c, n);
      within.push_back(n[0]);
    }
  }
};

/// Scores and targets with everything that can go wrong, in many rows.
Problem hard_problem(std::int64_t rows, std::int64_t classes, TargetKind kind, float smoothing) {
  Problem problem{rows, classes, kind, smoothing, random_values(rows * classes, 8, 0, 4), {}};
  for (std::size_t i = 0; i < problem.scores.size(); i += 3) {
    problem.scores[i] = std::floor(problem.scores[i]);  // ties
  }
  problem.targets = random_values(rows * (kind == TargetKind::sparse ? 1 : classes), 9, -1,
                                  static_cast<double>(classes + 1));
  for (float& target : problem.targets) target = std::floor(target);  // some are no class
  const auto spoil = [](std::vector<float>& values, std::size_t every, float with) {
    for (std::size_t i = every; i < values.size(); i += 7 * every) values[i] = with;
  };
  spoil(problem.scores, 11, nan);
  spoil(problem.scores, 5, -infinity);
  spoil(problem.scores, 23, infinity);
  spoil(problem.targets, 13, nan);
  return problem;
}

/// The same numbers but for the last bit, which products contracted with sums can change; NaN for
/// NaN.
template <class T>
void check_same(const Array<T>& found, const Array<T>& expected, double absolute = 1e-8) {
  check_close(found, std::vector<double>(expected.data(), expected.data() + expected.size()), 2e-7,
              absolute);
}

/// `derivative(row, class)` of all classes of `range`.
std::vector<double> each(const Problem& problem, const Range& range,
                         const std::function<double(std::int64_t, std::int64_t)>& derivative) {
  std::vector<double> values;
  for (std::int64_t row = 0; row < problem.rows; ++row) {
    for (std::int64_t j = range.begin; j < range.end; ++j) values.push_back(derivative(row, j));
  }
  return values;
}

}  // namespace

TEST_CASE("cross-entropy of logits and its gradient are those of the formula") {
  for (const Problem& problem : problems(-8, 8)) {
    // - sum_j t_j log softmax(x)_j of a row, with x_i moved
    const auto row_loss = [&](std::int64_t row, std::int64_t i, double moved) {
      const auto x = [&](std::int64_t j) { return j == i ? moved : problem.score(row, j); };
      double sum = 0, loss = 0;
      for (std::int64_t j = 0; j < problem.classes; ++j) sum += std::exp(x(j));
      for (std::int64_t j = 0; j < problem.classes; ++j) {
        loss -= problem.weight(row, j) * (x(j) - std::log(sum));
      }
      return loss;
    };
    double expected_loss = 0;
    for (std::int64_t row = 0; row < problem.rows; ++row) {
      expected_loss += row_loss(row, 0, problem.score(row, 0));
    }

    for (const std::vector<Range>& split : splits(problem.classes)) {
      Array<> m(problem.rows), z = zeros(3 * problem.rows);
      std::fill_n(m.data(), m.size(), -infinity);
      for (const Range& range : split) {
        Part part = part_of(problem, range);
        Array<> own(problem.rows);
        run(RowMaximumSpec{problem.rows, part.at.columns}, part.scores, own);
        for (std::size_t i = 0; i < m.size(); ++i) m[i] = std::max(m[i], own[i]);
      }
      for (const Range& range : split) {
        Part part = part_of(problem, range);
        Array<> own(3 * problem.rows);
        run_on(part, LogitStatisticsSpec{part.at}, m, own);
        add_to(z, own);
      }
      Array<double> loss(1);
      run(LogitLossSpec{problem.rows}, z, loss);
      // Rows of up to 16, in float32 statistics.
      check_close(loss, {expected_loss}, 1e-6, 3e-6);

      const float scale = 0.25f;
      for (const Range& range : split) {
        Part part = part_of(problem, range);
        Array<> dx(problem.rows * part.at.columns);
        run_on(part, LogitGradientSpec{part.at, scale}, m, z, dx);
        const auto derivative = [&](std::int64_t row, std::int64_t j) {
          return 0.25 *
                 slope([&](double x) { return row_loss(row, j, x); }, problem.score(row, j), 1e-5);
        };
        check_close(dx, each(problem, range, derivative), 2e-6, 1e-6);
      }
    }
  }
}

TEST_CASE("a class without weight may have a logit of minus infinity") {
  Array<> x{0, -infinity}, m{0}, z(3), dx(2);
  Array<std::int32_t> target{0};
  Array<double> loss(1);
  const ClassColumns at{.rows = 1, .columns = 2, .first_class = 0, .classes = 2};
  run(LogitStatisticsSpec{at}, x, target, m, z);
  run(LogitLossSpec{1}, z, loss);
  run(LogitGradientSpec{at, 1}, x, target, m, z, dx);
  CHECK(loss[0] == 0);
  CHECK(dx.values() == std::vector<float>{0, 0});
}

TEST_CASE("cross-entropy of probabilities and its gradient are those of the formula") {
  for (const Problem& problem : problems(0.05, 1)) {
    // Rows need not sum to 1: the formula divides by their sum.
    const auto row_loss = [&](std::int64_t row, std::int64_t i, double moved) {
      const auto p = [&](std::int64_t j) { return j == i ? moved : problem.score(row, j); };
      double sum = 0, loss = 0;
      for (std::int64_t j = 0; j < problem.classes; ++j) sum += p(j);
      for (std::int64_t j = 0; j < problem.classes; ++j) {
        loss -= problem.weight(row, j) * std::log(std::clamp(p(j) / sum, 1e-7, 1 - 1e-7));
      }
      return loss;
    };
    double expected_loss = 0;
    for (std::int64_t row = 0; row < problem.rows; ++row) {
      expected_loss += row_loss(row, 0, problem.score(row, 0));
    }

    for (const std::vector<Range>& split : splits(problem.classes)) {
      Array<> s = zeros(problem.rows), u = zeros(problem.rows);
      double loss = 0;
      for (const Range& range : split) {
        Part part = part_of(problem, range);
        Array<> own(problem.rows);
        run(RowSumSpec{problem.rows, part.at.columns}, part.scores, own);
        add_to(s, own);
      }
      for (const Range& range : split) {
        Part part = part_of(problem, range);
        Array<> own(problem.rows);
        Array<double> own_loss(1);
        run_on(part, ProbabilityLossSpec{part.at}, s, own_loss, own);
        add_to(u, own);
        loss += own_loss[0];
      }
      // With one class q = 1 is clipped to the float32 next to 1 - 1e-7, which differs by 2e-8.
      check_close(std::vector<double>{loss}, {expected_loss}, 1e-6, 1e-6);

      for (const Range& range : split) {
        Part part = part_of(problem, range);
        Array<> dp(problem.rows * part.at.columns);
        run_on(part, ProbabilityGradientSpec{part.at, 0.5f}, s, u, dp);
        const auto derivative = [&](std::int64_t row, std::int64_t j) {
          return 0.5 * slope([&](double p) { return row_loss(row, j, p); }, problem.score(row, j));
        };
        check_close(dp, each(problem, range, derivative), 3e-6, 3e-6);
      }
    }
  }
}

TEST_CASE("a clipped probability has no slope of its own") {
  // q = (1e-9, 1 - 1e-9): both are clipped, so the loss does not change with p.
  Array<> p{1e-9f, 1}, s{1}, u(1), dp(2);
  Array<std::int32_t> target{0};
  Array<double> loss(1);
  const ClassColumns at{.rows = 1, .columns = 2, .first_class = 0, .classes = 2};
  run(ProbabilityLossSpec{at}, p, target, s, loss, u);
  CHECK(loss[0] == Approx(-std::log(1e-7)).epsilon(1e-6));
  CHECK(u[0] == 0.0f);
  run(ProbabilityGradientSpec{at, 1}, p, target, s, u, dp);
  CHECK(dp.values() == std::vector<float>{0, 0});
}

TEST_CASE("a probability of NaN shows in loss and gradient") {
  Array<> p{nan, 1}, s{nan}, u(1), dp(2);
  Array<std::int32_t> target{1};
  Array<double> loss(1);
  const ClassColumns at{.rows = 1, .columns = 2, .first_class = 0, .classes = 2};
  run(ProbabilityLossSpec{at}, p, target, s, loss, u);
  run(ProbabilityGradientSpec{at, 1}, p, target, s, u, dp);
  CHECK(std::isnan(loss[0]));
  CHECK(std::isnan(dp[0]));
  CHECK(std::isnan(dp[1]));
}

TEST_CASE("ranks of targets are right however the classes are split") {
  // Few distinct scores, so that there are ties.
  for (const std::int64_t classes : {1, 2, 10, 35}) {
    Problem problem{9, classes, TargetKind::sparse, 0, random_values(9 * classes, 3, 0, 4), {}};
    for (float& score : problem.scores) score = std::floor(score);
    for (std::int64_t row = 0; row < 9; ++row) {
      problem.targets.push_back(static_cast<float>(row * 5 % classes));
    }
    std::vector<double> expected;
    for (std::int64_t row = 0; row < 9; ++row) {
      // The place of the target in the classes sorted by falling score, ties by class.
      std::vector<std::int64_t> order(static_cast<std::size_t>(classes));
      for (std::int64_t j = 0; j < classes; ++j) order[static_cast<std::size_t>(j)] = j;
      std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        return problem.score(row, a) > problem.score(row, b);
      });
      const auto place =
          std::find(order.begin(), order.end(),
                    static_cast<std::int64_t>(problem.targets[static_cast<std::size_t>(row)]));
      expected.push_back(static_cast<double>(place - order.begin()));
    }
    for (const std::vector<Range>& split : splits(classes)) {
      Array<> v = zeros(9);
      Array<std::int32_t> c(std::vector<std::int32_t>(9));
      for (const Range& range : split) {
        Part part = part_of(problem, range);
        Array<> own(9);
        run(TargetValueSpec{part.at}, part.scores, part.targets, own);
        add_to(v, own);
      }
      for (const Range& range : split) {
        Part part = part_of(problem, range);
        Array<std::int32_t> own(9);
        run(CountAheadSpec{part.at}, part.scores, part.targets, v, own);
        add_to(c, own);
      }
      check_close(c, expected, 0);
      for (const std::int64_t k : {0, 1, 3}) {
        Array<double> n(1);
        run(CountBelowSpec{9, k}, c, n);
        CHECK(n[0] == static_cast<double>(std::count_if(
                          expected.begin(), expected.end(),
                          [&](double place) { return place < static_cast<double>(k); })));
      }
    }
  }
}

TEST_CASE("a row whose target is no class has no loss, no gradient and no rank") {
  constexpr std::int64_t rows = 5;
  for (const std::int64_t classes : {3, 20}) {
    const auto outside = static_cast<float>(classes);
    Problem problem{rows,
                    classes,
                    TargetKind::sparse,
                    0,
                    random_values(rows * classes, 5, 0.1, 4),
                    {-1, 0, outside, -100, outside + 200}};
    Problem counted = problem;  // its second row by itself
    counted.rows = 1;
    counted.scores = {problem.scores.begin() + classes, problem.scores.begin() + 2 * classes};
    counted.targets = {0};
    for (const Crossentropy crossentropy :
         {Crossentropy::of_logits, Crossentropy::of_probabilities}) {
      const Separately all(problem, crossentropy, 0.5f), alone(counted, crossentropy, 0.5f);
      CHECK(all.loss[0] == alone.loss[0]);
      CHECK(all.within == alone.within);
      Part part = part_of(problem, {0, classes});
      Array<double> loss(1), one(1), any(1);
      Array<> dx(rows * classes);
      run(ClassComparisonSpec{.at = part.at,
                              .crossentropy = crossentropy,
                              .gradient = true,
                              .scale = 0.5f,
                              .within = {1, std::int64_t{1} << 40}},
          part.scores, part.targets, loss, dx, one, any);
      CHECK(loss[0] == alone.loss[0]);
      CHECK(one[0] == alone.within[1]);
      CHECK(any[0] == 1);
      for (std::int64_t i = 0; i < rows * classes; ++i) {
        const auto at = static_cast<std::size_t>(i);
        const bool counts = i / classes == 1;
        CHECK(dx[at] == (counts ? alone.dx[at - static_cast<std::size_t>(classes)] : 0));
        CHECK(all.dx[at] == dx[at]);
      }
    }
    // Wherever the classes are cut, each rank says so.
    const std::vector<Range> split = splits(classes).back();
    for (const Range& range : split) {
      Part part = part_of(problem, range);
      Array<> v(rows);
      Array<std::int32_t> c(rows);
      run(CountAheadSpec{part.at}, part.scores, part.targets, v, c);
      CHECK(c.values() == std::vector<std::int32_t>{-1, c[1], -1, -1, -1});
      CHECK(c[1] >= 0);
    }
  }
}

TEST_CASE("a NaN stands before everything, and everything before a target of NaN") {
  const ClassColumns at{.rows = 1, .columns = 3, .first_class = 0, .classes = 3};
  Array<std::int32_t> target{1}, c(1);
  Array<> v(1);
  Array<> with_nan{nan, 5, 1};
  run(TargetValueSpec{at}, with_nan, target, v);
  run(CountAheadSpec{at}, with_nan, target, v, c);
  CHECK(c[0] == 1);
  Array<> nan_target{0, nan, 1};
  run(TargetValueSpec{at}, nan_target, target, v);
  run(CountAheadSpec{at}, nan_target, target, v, c);
  CHECK(c[0] == 2);
}

TEST_CASE("a target that is no class counts for nothing") {
  const ClassColumns at{.rows = 3, .columns = 2, .first_class = 0, .classes = 2};
  Array<> x{1, 2, 3, 4, 5, 6}, v(3);
  Array<std::int32_t> targets{-1, 7, std::numeric_limits<std::int32_t>::min()};
  run(TargetValueSpec{at}, x, targets, v);
  CHECK(v.values() == std::vector<float>{0, 0, 0});
}

TEST_CASE("class numbers beyond 2^24, which float32 cannot tell apart, are told apart") {
  const std::int64_t first = std::int64_t{1} << 24;
  const ClassColumns at{.rows = 2, .columns = 2, .first_class = first, .classes = first + 2};
  Array<> x{1, 2, 3, 4}, v(2);
  Array<std::int32_t> targets{static_cast<std::int32_t>(first),
                              static_cast<std::int32_t>(first + 1)};
  run(TargetValueSpec{at}, x, targets, v);
  CHECK(v.values() == std::vector<float>{1, 4});
}

TEST_CASE("the first maximum is the lowest class that has it") {
  // Classes 4 to 6 of 10.
  const ClassColumns at{.rows = 4, .columns = 3, .first_class = 4, .classes = 10};
  Array<> x{1, 3, 3, 3, 1, 1, 0, 1, 2, nan, 1, nan}, m{3, 3, 9, nan};
  Array<std::int32_t> i(4);
  run(FirstMaximumSpec{at}, x, m, i);
  CHECK(i.values() == std::vector<std::int32_t>{5, 4, 10, 4});
  Array<> none(0);
  Array<std::int32_t> nothing(4);
  run(FirstMaximumSpec{{.rows = 4, .columns = 0, .first_class = 4, .classes = 10}}, none, m,
      nothing);
  CHECK(nothing.values() == std::vector<std::int32_t>{10, 10, 10, 10});
}

TEST_CASE("rows with all their classes are compared at once, to the same numbers") {
  const bool with_weights = GENERATE(false, true);
  constexpr float scale = 0.25f;
  for (const std::int64_t rows : {0, 1, 15, 16, 17, 33}) {
    for (const std::int64_t classes : {1, 2, 10, 16, 17, 35}) {
      for (const TargetKind kind : {TargetKind::sparse, TargetKind::dense}) {
        for (const Crossentropy crossentropy :
             {Crossentropy::of_logits, Crossentropy::of_probabilities}) {
          const float smoothing = classes == 10 ? 0.1f : 0.0f;
          Problem problem = hard_problem(rows, classes, kind, smoothing);
          const std::int64_t rows_a_weight = rows % 3 == 0 ? 3 : 1;
          if (with_weights) problem = problem.weighted(rows_a_weight);
          INFO(rows << " rows, " << classes << " classes, weighted "
                    << (problem.rows_a_weight > 0));
          const Separately expected(problem, crossentropy, scale);
          Part part = part_of(problem, {0, classes});
          Array<double> loss(1), none(1), one(1), three(1);
          Array<> dx(rows * classes);
          const ClassComparisonSpec all{.at = part.at,
                                        .crossentropy = crossentropy,
                                        .gradient = true,
                                        .scale = scale,
                                        .within = {0, 1, 3}};
          run_on(part, all, loss, dx, none, one, three);
          check_same(loss, expected.loss);
          // Target weights of up to 11 times 1.5 leave their last bit where they cancel.
          check_same(dx, expected.dx, with_weights ? 1e-6 : 1e-8);
          CHECK(std::vector<double>{none[0], one[0], three[0]} == expected.within);

          // Less of it is the same.
          Array<double> alone(1), rank(1);
          run_on(part, ClassComparisonSpec{.at = part.at, .crossentropy = crossentropy}, alone);
          check_same(alone, loss);
          part.at.rows_a_weight = 0;
          run_on(part, ClassComparisonSpec{.at = part.at, .within = {1}}, rank);
          CHECK(rank[0] == one[0]);
        }
      }
    }
  }
}

TEST_CASE("many rows, on threads, are compared to the same numbers") {
  const Problem problem = hard_problem(20000, 10, TargetKind::sparse, 0);
  const Separately expected(problem, Crossentropy::of_logits, 1);
  Part part = part_of(problem, {0, 10});
  Array<double> loss(1), n(1);
  Array<> dx(20000 * 10);
  run_kernel(
      ClassComparisonSpec{
          .at = part.at, .crossentropy = Crossentropy::of_logits, .gradient = true, .within = {1}},
      {part.scores.data(), part.targets.data(), loss.data(), dx.data(), n.data()}, 3);
  check_same(loss, expected.loss);
  check_same(dx, expected.dx);
  CHECK(n[0] == expected.within[1]);
  // Threads change no bit.
  Array<double> by_one(1);
  Array<> dx_by_one(20000 * 10);
  run(
      ClassComparisonSpec{
          .at = part.at, .crossentropy = Crossentropy::of_logits, .gradient = true, .within = {1}},
      part.scores, part.targets, by_one, dx_by_one, n);
  check_close(loss, {by_one[0]}, 0);
  CHECK(std::memcmp(dx.data(), dx_by_one.data(), dx.size() * sizeof(float)) == 0);
}

TEST_CASE("a comparison of some of the classes is refused") {
  const ClassColumns at{.rows = 1, .columns = 3, .first_class = 0, .classes = 10};
  CHECK_THROWS_WITH(run_kernel(ClassComparisonSpec{.at = at, .within = {1}}, {}),
                    Catch::Contains("has not all classes"));
}

TEST_CASE("a row weighs as much as its class, by whichever target says it") {
  const std::vector<float> table{2, 0.5f, 0};
  Array<> y(4);
  // Classes behind the table, and what is no class, weigh 1.
  Array<std::int32_t> numbers{2, 0, 3, -1};
  run(RowWeightSpec{.rows = 4, .table = table}, numbers, y);
  CHECK(y.values() == std::vector<float>{0, 2, 1, 1});
  run(RowWeightSpec{.rows = 4}, numbers, y);
  CHECK(y.values() == std::vector<float>{1, 1, 1, 1});
  Array<> of_two{3, 5};
  run(RowWeightSpec{.rows = 4, .rows_a_weight = 2, .table = table}, numbers, of_two, y);
  CHECK(y.values() == std::vector<float>{0, 6, 5, 5});
  // Of equal weights the lowest class is right.
  Array<> given{0, 1, 0, 0.5f, 0.25f, 0.5f, 0, 0, 0, 0.1f, 0.2f, 0.7f};
  run(RowWeightSpec{.rows = 4, .columns = 3, .of_row = RowClass::largest, .table = table}, given,
      y);
  CHECK(y.values() == std::vector<float>{0.5f, 2, 2, 0});
  Array<> yes{0, 1, 0.5f, 0.75f};
  Array<> of_rows{1, 2, 3, 4};
  run(RowWeightSpec{.rows = 4, .of_row = RowClass::binary, .rows_a_weight = 1, .table = table}, yes,
      of_rows, y);
  CHECK(y.values() == std::vector<float>{2, 1, 6, 2});
  // So that the mean over eight rows is one over the four, or none, that count.
  Array<double> four{4}, none{0};
  Array<> mask{1, 1, 0, 1};
  run(
      RowWeightSpec{
          .rows = 4, .rows_a_weight = 2, .rows_a_mask = 1, .table = table, .rows_in_all = 8},
      numbers, of_two, mask, four, y);
  CHECK(y.values() == std::vector<float>{0, 12, 0, 10});
  run(RowWeightSpec{.rows = 4, .rows_a_mask = 1, .rows_in_all = 8}, numbers, mask, none, y);
  CHECK(y.values() == std::vector<float>{0, 0, 0, 0});
  // Rows of no class.
  Array<> of_pairs{0, 1};
  run(RowWeightSpec{.rows = 4,
                    .of_row = RowClass::none,
                    .rows_a_weight = 1,
                    .rows_a_mask = 2,
                    .rows_in_all = 8},
      of_rows, of_pairs, four, y);
  CHECK(y.values() == std::vector<float>{0, 0, 6, 8});
  const std::vector<float> many = random_values(1000, 6, 0, 40);
  std::vector<std::int32_t> classes(many.begin(), many.end());
  Array<std::int32_t> target(classes);
  Array<> weights(1000);
  run(RowWeightSpec{.rows = 1000, .table = random_values(30, 7)}, target, weights);
  std::vector<double> expected;
  for (const std::int32_t number : classes) {
    expected.push_back(
        number < 30 ? static_cast<double>(random_values(30, 7)[static_cast<std::size_t>(number)])
                    : 1);
  }
  check_close(weights, expected, 0);
}

TEST_CASE("weights of rows without a loss are refused") {
  const ClassColumns at{.rows = 1, .columns = 3, .classes = 3, .rows_a_weight = 1};
  CHECK_THROWS_WITH(run_kernel(ClassComparisonSpec{.at = at, .within = {1}}, {}),
                    Catch::Contains("has weights of no loss"));
}

TEST_CASE("ranking by weights instead of class numbers is refused") {
  const ClassColumns at{.rows = 1, .columns = 1, .classes = 1, .target = TargetKind::dense};
  CHECK_THROWS_WITH(run_kernel(TargetValueSpec{at}, {}), Catch::Contains("class numbers"));
  CHECK_THROWS_WITH(run_kernel(CountAheadSpec{at}, {}), Catch::Contains("class numbers"));
}

TEST_CASE("a loss over many rows does not depend on the number of threads") {
  const std::int64_t rows = 40001;
  const ClassColumns at{.rows = rows, .columns = 10, .first_class = 0, .classes = 10};
  Array<> x(random_values(rows * 10, 5)), target(std::vector<float>(rows, 3.0f)),
      m(std::vector<float>(rows, 1.0f)), z(rows * 3), z3(rows * 3);
  run_kernel(LogitStatisticsSpec{at}, {x.data(), target.data(), m.data(), z.data()}, 1);
  run_kernel(LogitStatisticsSpec{at}, {x.data(), target.data(), m.data(), z3.data()}, 3);
  CHECK(z.values() == z3.values());
  Array<double> loss(1), loss3(1);
  run_kernel(LogitLossSpec{rows}, {z.data(), loss.data()}, 1);
  run_kernel(LogitLossSpec{rows}, {z.data(), loss3.data()}, 3);
  CHECK(loss[0] == loss3[0]);
}

}  // namespace meshwork::test::classes_test

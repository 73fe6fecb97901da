// Losses that are functions, and counts of metrics, by the loops of each device: what the functions
// themselves give is held against formulas in tests/runtime/train/losses.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "runtime/device/kernels/counts.h"
#include "runtime/device/kernels/overlap.h"
#include "runtime/device/kernels/row_losses.h"
#include "runtime/device/kernels/value_losses.h"
#include "tests/runtime/device/support.h"

namespace meshwork::test::function_losses_test {

namespace {

// In place of the device's functions.
struct Math {
  static float exp(float x) { return std::exp(x); }
  static float log(float x) { return std::log(x); }
  static float log1p(float x) { return std::log1p(x); }
  static float tanh(float x) { return std::tanh(x); }
  static float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }
};

constexpr std::int64_t row_counts[] = {1, 3, 40}, column_counts[] = {1, 7, 33, 300};

template <class Function>
void check_rows(const Function& function, std::int64_t rows, std::int64_t columns) {
  INFO(Function::name << " of " << rows << "x" << columns);
  constexpr int sums = Function::sums, further = Function::further;
  const std::vector<float> p = random_values(rows * columns, 1, 0.1, 0.9);
  const std::vector<float> t = random_values(rows * columns, 2, 0.1, 0.9);
  std::vector<double> of_rows, more, slopes;
  double loss = 0;
  const auto state_of = [&](std::size_t r, float largest) {
    return RowState{largest, of_rows.data() + r * sums, more.data() + r * further};
  };
  std::vector<float> largest;
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto row = static_cast<std::size_t>(r);
    const auto each = [&](const auto& value) {
      for (std::int64_t j = 0; j < columns; ++j) {
        const auto i = static_cast<std::size_t>(r * columns + j);
        value(p[i], t[i]);
      }
    };
    float m = -1e30f;
    if constexpr (Function::has_maximum) {
      each([&](float a, float b) { m = std::max(m, function.template score<Math>(a, b)); });
    }
    largest.push_back(m);
    of_rows.resize(static_cast<std::size_t>((r + 1) * sums));
    more.resize(static_cast<std::size_t>((r + 1) * further));
    std::vector<double> total(sums + further);
    each([&](float a, float b) {
      const Sums<sums> one = function.template terms<Math>(a, b, state_of(row, m));
      for (int k = 0; k < sums; ++k) total[static_cast<std::size_t>(k)] += one.values[k];
    });
    std::copy_n(total.begin(), sums, of_rows.end() - sums);
    if constexpr (further > 0) {
      each([&](float a, float b) {
        const Sums<further> one = function.template more_terms<Math>(a, b, state_of(row, m));
        for (int k = 0; k < further; ++k)
          total[static_cast<std::size_t>(sums + k)] += one.values[k];
      });
      std::copy_n(total.begin() + sums, further, more.end() - further);
    }
    const double weight = r % 2 == 0 ? 0.5 : 2;
    loss += weight * function.loss(state_of(row, m));
    if constexpr (Function::has_slope) {
      each([&](float a, float b) {
        slopes.push_back(0.25 * weight * function.template slope<Math>(a, b, state_of(row, m)));
      });
    }
  }
  Array<> prediction(p), target(t), maxima(rows), weights(rows), dp(rows * columns);
  for (std::int64_t r = 0; r < rows; ++r)
    weights[static_cast<std::size_t>(r)] = r % 2 == 0 ? 0.5f : 2;
  Array<double> found(rows * sums), found_more(std::max<std::int64_t>(rows * further, 1)), sum(1);
  if constexpr (Function::has_maximum) {
    run(RowScoreSpec<Function>{rows, columns, function}, prediction, target, maxima);
    CHECK(maxima.values() == largest);
  }
  run(RowSumsSpec<Function, false>{rows, columns, function}, prediction, target, maxima, found,
      found_more);
  check_close(found, of_rows, 1e-6, 1e-9);
  if constexpr (further > 0) {
    run(RowSumsSpec<Function, true>{rows, columns, function}, prediction, target, maxima, found,
        found_more);
    check_close(found_more, more, 1e-5, 1e-7);
  }
  run(RowLossSpec<Function>{rows, function, 1}, maxima, found, found_more, weights, sum);
  check_close(sum, {loss}, 1e-5, 1e-7);
  if constexpr (Function::has_slope) {
    run(RowSlopeSpec<Function>{rows, columns, 0.25f, function, 1}, prediction, target, maxima,
        found, found_more, weights, dp);
    check_close(dp, slopes, 1e-4, 1e-6);
  }
  CHECK(found.intact());
  CHECK(dp.intact());
}

}  // namespace

TEST_CASE("losses of values are sums of their functions, and their gradients the slopes") {
  EveryValueLoss::each([]<class Function>(const Function& function) {
    INFO(Function::name);
    for (const std::int64_t count : odd_sizes) {
      const std::vector<float> p = random_values(count, 1, 0.1, 0.9);
      const std::vector<float> t = random_values(count, 2, 0.1, 0.9);
      double sum = 0;
      std::vector<double> slopes;
      for (std::size_t i = 0; i < p.size(); ++i) {
        sum += 0.5 * function.template term<Math>(p[i], t[i]);
        slopes.push_back(0.25 * static_cast<double>(function.template slope<Math>(p[i], t[i])));
      }
      Array<> prediction(p), target(t), dp(count);
      Array<double> loss(1);
      run(ValueLossSpec<Function>{count, 0.5, function}, prediction, target, loss);
      // Logarithms and exponentials of devices differ in the last places.
      check_close(loss, {sum}, 1e-5, 1e-6);
      run(ValueSlopeSpec<Function>{count, 0.25f, function}, prediction, target, dp);
      check_close(dp, slopes, 1e-5, 1e-6);
    }
  });
}

TEST_CASE("losses of rows follow from the maxima and sums of their functions") {
  for (const std::int64_t rows : row_counts) {
    for (const std::int64_t columns : column_counts) {
      EveryRowLoss::each([&](const auto& function) { check_rows(function, rows, columns); });
    }
  }
}

TEST_CASE("threshold counts are those of counting") {
  for (const std::int64_t count : odd_sizes) {
    for (const std::vector<float>& thresholds :
         {std::vector<float>{0.5f}, std::vector<float>{0.25f, 0.5f, 0.75f}}) {
      std::vector<float> p = random_values(count, 1, 0, 1), t = random_values(count, 2, 0, 1);
      for (float& value : t) value = value > 0.5f ? 1.0f : 0.0f;
      if (!p.empty()) p.front() = 0.5f;
      const std::size_t bins = thresholds.size() + 1;
      std::vector<double> expected(2 * bins);
      for (std::size_t i = 0; i < p.size(); ++i) {
        std::size_t bin = 0;
        for (const float threshold : thresholds) bin += p[i] > threshold ? 1 : 0;
        expected[(t[i] != 0 ? 0 : bins) + bin] += 1;
      }
      Array<> prediction(p), target(t);
      Array<double> counts(static_cast<std::int64_t>(2 * bins));
      run(ThresholdCountsSpec{count, thresholds}, prediction, target, counts);
      CHECK(counts.values() == expected);
      CHECK(counts.intact());
    }
  }
}

TEST_CASE("column squares are those of adding") {
  for (const std::int64_t rows : {1, 5, 600}) {
    for (const std::int64_t columns : {1, 3, 70}) {
      const std::vector<float> p = random_values(rows * columns, 1);
      const std::vector<float> t = random_values(rows * columns, 2);
      std::vector<double> expected(static_cast<std::size_t>(3 * columns));
      for (std::size_t i = 0; i < p.size(); ++i) {
        double* const of = &expected[3 * (i % static_cast<std::size_t>(columns))];
        const double target = static_cast<double>(t[i]),
                     difference = target - static_cast<double>(p[i]);
        of[0] += target;
        of[1] += target * target;
        of[2] += difference * difference;
      }
      Array<> prediction(p), target(t);
      Array<double> sums(3 * columns);
      run(ColumnSquaresSpec{{.outer = 1, .middle = rows, .inner = columns}}, prediction, target,
          sums);
      check_close(sums, expected, 1e-12, 1e-12);
      CHECK(sums.intact());
    }
  }
}

TEST_CASE("threshold counts of one value in each stride are those of a column") {
  const std::int64_t rows = 41, columns = 3;
  const std::vector<float> p = random_values(rows * columns, 1, 0, 1);
  const std::vector<float> t = random_values(rows * columns, 2, -1, 1);
  std::vector<double> expected(4);
  for (std::size_t i = 0; i < p.size(); i += 3) expected[(t[i] != 0 ? 0 : 2) + (p[i] > 0.5f)] += 1;
  Array<> prediction(p), target(t);
  Array<double> counts(4);
  run(ThresholdCountsSpec{rows, {0.5f}, columns}, prediction, target, counts);
  CHECK(counts.values() == expected);
}

TEST_CASE("column choices are those of comparing, with a threshold and with the largest of a row") {
  for (const std::int64_t rows : {1, 5, 600}) {
    for (const std::int64_t columns : {1, 3, 70}) {
      std::vector<float> p = random_values(rows * columns, 1, 0, 8);
      const std::vector<float> t = random_values(rows * columns, 2);
      for (float& value : p) value = std::floor(value);
      std::vector<float> maxima;
      for (std::int64_t row = 0; row < rows; ++row) {
        maxima.push_back(
            *std::max_element(p.begin() + row * columns, p.begin() + (row + 1) * columns));
      }
      for (const bool of_maxima : {false, true}) {
        std::vector<double> expected(static_cast<std::size_t>(3 * columns));
        for (std::size_t i = 0; i < p.size(); ++i) {
          const float m = maxima[i / static_cast<std::size_t>(columns)];
          const bool chosen = of_maxima ? p[i] == m && p[i] != 0 : p[i] > 3.5f;
          double* const of = &expected[3 * (i % static_cast<std::size_t>(columns))];
          of[0] += chosen ? static_cast<double>(t[i]) : 0;
          of[1] += chosen ? 1 : 0;
          of[2] += static_cast<double>(t[i]);
        }
        Array<> prediction(p), target(t), largest(maxima);
        Array<double> sums(3 * columns);
        const ColumnChoicesSpec spec{
            {.outer = 1, .middle = rows, .inner = columns}, of_maxima, 3.5f};
        if (of_maxima) {
          run(spec, prediction, target, largest, sums);
        } else {
          run(spec, prediction, target, sums);
        }
        check_close(sums, expected, 1e-12, 1e-12);
        CHECK(sums.intact());
      }
    }
  }
}

TEST_CASE("overlap sums, losses and gradients are those of adding, folded or not") {
  for (const MiddleExtents& at : {MiddleExtents{1, 1, 1}, MiddleExtents{3, 50, 1},
                                  MiddleExtents{2, 7, 70}, MiddleExtents{0, 3, 2}}) {
    const std::int64_t count = at.outer * at.middle * at.inner, pieces = at.outer * at.inner;
    const std::vector<float> p = random_values(count, 1, 0.1, 0.9);
    const std::vector<float> t = random_values(count, 2, 0, 1);
    const OverlapFunction function{0.25, 0.5, 1e-7};
    std::vector<double> sums(static_cast<std::size_t>(3 * pieces));
    std::vector<double> whole(static_cast<std::size_t>(3 * at.inner));
    const auto piece_of = [&](std::size_t i) {
      const auto inner = static_cast<std::size_t>(at.inner);
      return i / (inner * static_cast<std::size_t>(at.middle)) * inner + i % inner;
    };
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double a = static_cast<double>(p[i]), b = static_cast<double>(t[i]);
      const double terms[] = {a * b, a, b};
      for (std::size_t k = 0; k < 3; ++k) {
        sums[3 * piece_of(i) + k] += terms[k];
        whole[3 * (i % static_cast<std::size_t>(at.inner)) + k] += terms[k];
      }
    }
    Array<> prediction(p), target(t), gradient(count), weights(std::max<std::int64_t>(at.outer, 1));
    Array<double> of_pieces(3 * pieces), of_all(3 * at.inner), loss(1);
    for (std::int64_t i = 0; i < at.outer; ++i)
      weights[static_cast<std::size_t>(i)] = i % 2 ? 2 : 0.5f;
    run(OverlapSumsSpec{at}, prediction, target, of_pieces);
    check_close(of_pieces, sums, 1e-12, 1e-12);
    run(FoldedSumsSpec{at.outer, 3 * at.inner}, of_pieces, of_all);
    check_close(of_all, whole, 1e-12, 1e-12);
    double expected = 0;
    for (std::int64_t i = 0; i < pieces; ++i) {
      const double weight = i / at.inner % 2 ? 2 : 0.5;
      expected += 0.5 * weight * function.loss(&sums[static_cast<std::size_t>(3 * i)]);
    }
    run(OverlapLossSpec{pieces, function, 0.5, at.inner}, of_pieces, weights, loss);
    check_close(loss, {expected}, 1e-9, 1e-12);
    std::vector<double> slopes, slopes_of_all;
    for (std::size_t i = 0; i < t.size(); ++i) {
      const std::size_t piece = piece_of(i), inner = static_cast<std::size_t>(at.inner);
      const double weight = piece / inner % 2 ? 2 : 0.5, b = static_cast<double>(t[i]);
      slopes.push_back(0.25 * weight * function.slope(b, &sums[3 * piece]));
      slopes_of_all.push_back(0.25 * function.slope(b, &whole[3 * (i % inner)]));
    }
    run(OverlapGradientSpec{at, function, 0.25f, false, at.inner}, target, of_pieces, weights,
        gradient);
    check_close(gradient, slopes, 1e-5, 1e-7);
    run(OverlapGradientSpec{at, function, 0.25f, true}, target, of_all, gradient);
    check_close(gradient, slopes_of_all, 1e-5, 1e-7);
    CHECK(gradient.intact());
  }
}

TEST_CASE("pairs of classes count where both are classes and the right one is not ignored") {
  for (const std::int64_t count : odd_sizes) {
    const std::int64_t classes = 5, ignored = 2;
    std::vector<float> p = random_values(count, 1, -1.5, 6.5),
                       t = random_values(count, 2, -1.5, 6.5);
    std::vector<std::int32_t> of_p, of_t;
    std::vector<double> expected(15);
    for (std::size_t i = 0; i < p.size(); ++i) {
      const int a = static_cast<int>(p[i]), b = static_cast<int>(t[i]);
      of_p.push_back(p[i] <= -1 ? -1 : a);
      of_t.push_back(t[i] <= -1 ? -1 : b);
      if (of_p[i] < 0 || a > 4 || of_t[i] < 0 || b > 4 || b == ignored) continue;
      if (a == b) expected[static_cast<std::size_t>(3 * a)] += 1;
      expected[static_cast<std::size_t>(3 * a + 1)] += 1;
      expected[static_cast<std::size_t>(3 * b + 2)] += 1;
    }
    Array<> prediction(p), target(t);
    Array<std::int32_t> said(of_p), right(of_t);
    Array<double> of_values(15), of_numbers(15);
    run(ClassPairsSpec{count, classes, ignored, true}, prediction, target, of_values);
    run(ClassPairsSpec{count, classes, ignored}, said, right, of_numbers);
    CHECK(of_values.values() == expected);
    CHECK(of_numbers.values() == expected);
    CHECK(of_numbers.intact());
  }
}

TEST_CASE("only the largest of each row are left, of equal ones the first") {
  for (const std::int64_t columns : {1, 4, 33}) {
    for (const std::int64_t k : {1, 3, 40}) {
      const std::int64_t rows = 7;
      std::vector<float> x = random_values(rows * columns, 1, 0, 6);
      for (float& value : x) value = std::floor(value);
      x.back() = std::nanf("");
      std::vector<float> expected(x.size(), -std::numeric_limits<float>::infinity());
      for (std::int64_t row = 0; row < rows; ++row) {
        std::vector<std::int64_t> order;
        for (std::int64_t j = 0; j < columns; ++j) order.push_back(row * columns + j);
        std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
          const float of_a = x[static_cast<std::size_t>(a)], of_b = x[static_cast<std::size_t>(b)];
          return std::isnan(of_a) ? !std::isnan(of_b) : of_a > of_b;
        });
        for (std::int64_t j = 0; j < std::min(k, columns); ++j) {
          const auto i = static_cast<std::size_t>(order[static_cast<std::size_t>(j)]);
          expected[i] = x[i];
        }
      }
      Array<> values(x), least(rows), only(rows * columns);
      Array<std::int32_t> column(rows);
      run(LargestEndSpec{rows, columns, k}, values, least, column);
      run(LargestOnlySpec{rows, columns}, values, least, column, only);
      const std::vector<float> found = only.values();
      for (std::size_t i = 0; i < found.size(); ++i) {
        CHECK((found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i]))));
      }
      CHECK(only.intact());
      CHECK(column.intact());
    }
  }
}

}  // namespace meshwork::test::function_losses_test

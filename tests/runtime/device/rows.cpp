#include <limits>

#include "runtime/device/kernels/products.h"
#include "runtime/device/kernels/rows.h"
#include "tests/runtime/device/support.h"

namespace meshwork::test::rows_test {

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// f(row, column indices of the row) for each row.
template <class Function>
std::vector<double> by_row(std::int64_t rows, const Function& f) {
  std::vector<double> results;
  for (std::int64_t row = 0; row < rows; ++row) results.push_back(f(row));
  return results;
}

double entry(const std::vector<float>& x, std::int64_t columns, std::int64_t row, std::int64_t j) {
  return static_cast<double>(x[static_cast<std::size_t>(row * columns + j)]);
}

}  // namespace

TEST_CASE("a row is repeated in each row") {
  Array<> x{1, 2, 3}, y(6), none(0);
  run(RepeatRowsSpec{2, 3}, x, y);
  CHECK(y.values() == std::vector<float>{1, 2, 3, 1, 2, 3});
  run(RepeatRowsSpec{0, 3}, x, none);
}

TEST_CASE("column sums are the sums down the rows") {
  for (const std::int64_t rows : {0, 1, 3, 64, 511, 1025, 5000}) {
    for (const std::int64_t columns : {0, 1, 10, 63, 64, 65, 130}) {
      const std::vector<float> values = random_values(rows * columns, 1);
      std::vector<double> expected(static_cast<std::size_t>(columns));
      for (std::size_t i = 0; i < values.size(); ++i) {
        expected[i % static_cast<std::size_t>(columns)] += static_cast<double>(values[i]);
      }
      Array<> x(values), s(columns);
      run(ColumnSumSpec{rows, columns}, x, s);
      check_close(s, expected, 1e-7, 1e-12);  // summed in double, rounded once
      Array<> shared(columns);
      run_kernel(ColumnSumSpec{rows, columns}, {x.data(), shared.data()}, 3);
      CHECK(s.values() == shared.values());
    }
  }
}

TEST_CASE("row maxima, sums and products of rows are right for any number of columns") {
  for (const std::int64_t rows : {0, 1, 5}) {
    for (const std::int64_t columns : odd_sizes) {
      const std::vector<float> left = random_values(rows * columns, 2);
      const std::vector<float> right = random_values(rows * columns, 3);
      Array<> a(left), b(right), result(rows);

      run(RowMaximumSpec{rows, columns}, a, result);
      check_close(result,
                  by_row(rows,
                         [&](std::int64_t row) {
                           double best = -infinity;
                           for (std::int64_t j = 0; j < columns; ++j) {
                             best = std::max(best, entry(left, columns, row, j));
                           }
                           return best;
                         }),
                  0);

      run(RowSumSpec{rows, columns}, a, result);
      check_close(result,
                  by_row(rows,
                         [&](std::int64_t row) {
                           double sum = 0;
                           for (std::int64_t j = 0; j < columns; ++j)
                             sum += entry(left, columns, row, j);
                           return sum;
                         }),
                  1e-7, 1e-12);

      run(RowDotSpec{rows, columns}, a, b, result);
      check_close(result,
                  by_row(rows,
                         [&](std::int64_t row) {
                           double sum = 0;
                           for (std::int64_t j = 0; j < columns; ++j) {
                             sum += entry(left, columns, row, j) * entry(right, columns, row, j);
                           }
                           return sum;
                         }),
                  1e-7, 1e-12);
    }
  }
}

TEST_CASE("the maximum of no columns is minus infinity") {
  Array<> x(0), m(2);
  run(RowMaximumSpec{2, 0}, x, m);
  CHECK(m.values() == std::vector<float>{-infinity, -infinity});
}

TEST_CASE("a NaN is the maximum of its row, wherever it stands") {
  for (std::size_t place = 0; place < 40; ++place) {
    std::vector<float> values = random_values(40, 4);
    values[place] = nan;
    Array<> x(values), m(1);
    run(RowMaximumSpec{1, 40}, x, m);
    CHECK(std::isnan(m[0]));
  }
}

TEST_CASE("softmax of whole rows, and its gradient, are what the parts give") {
  for (const std::int64_t rows : {0, 1, 15, 16, 33}) {
    for (const std::int64_t columns : {1, 2, 10, 16, 17, 37}) {
      std::vector<float> values = random_values(rows * columns, 5, -20, 20);
      if (rows == 33) values[20] = nan;
      Array<> x(values), dy(random_values(rows * columns, 6)), m(rows), e(rows * columns), s(rows);
      Array<> y(rows * columns), dx(rows * columns), whole(rows * columns),
          gradient(rows * columns);
      run(RowMaximumSpec{rows, columns}, x, m);
      run(RowExponentialSpec{rows, columns}, x, m, e, s);
      run(RowDivideSpec{rows, columns}, e, s, y);
      run(SoftmaxSpec{rows, columns}, x, whole);
      run(RowDotSpec{rows, columns}, y, dy, m);
      run(SoftmaxGradientSpec{rows, columns}, y, dy, m, dx);
      run(SoftmaxGradientSpec{.rows = rows, .columns = columns, .whole = true}, y, dy, gradient);
      const auto as_doubles = [](const Array<>& array) {
        return std::vector<double>(array.data(), array.data() + array.size());
      };
      // On a GPU, kernels may be contracted each in its way.
      const double allowed = kernel_device().traits().kind == "cuda" ? 1e-6 : 0;
      check_close(whole, as_doubles(y), allowed, allowed);
      check_close(gradient, as_doubles(dx), allowed, allowed);
      run_kernel(SoftmaxSpec{rows, columns}, {x.data(), x.data()}, 3);
      check_close(x, as_doubles(whole), 0);
    }
  }
}

TEST_CASE("the three parts of softmax give softmax") {
  for (const std::int64_t rows : {0, 1, 4}) {
    for (const std::int64_t columns : {1, 2, 10, 16, 37}) {
      const std::vector<float> values = random_values(rows * columns, 5, -20, 20);
      Array<> x(values), m(rows), e(rows * columns), s(rows), y(rows * columns);
      run(RowMaximumSpec{rows, columns}, x, m);
      run(RowExponentialSpec{rows, columns}, x, m, e, s);
      run(RowDivideSpec{rows, columns}, e, s, y);
      std::vector<double> expected;
      for (std::int64_t row = 0; row < rows; ++row) {
        double sum = 0;
        for (std::int64_t j = 0; j < columns; ++j) sum += std::exp(entry(values, columns, row, j));
        for (std::int64_t j = 0; j < columns; ++j) {
          expected.push_back(std::exp(entry(values, columns, row, j)) / sum);
        }
      }
      // x - m is rounded to half a unit of 40, which e^x turns into a relative error.
      check_close(y, expected, 3e-6);
      run_kernel(RowDivideSpec{rows, columns}, {e.data(), s.data(), e.data()});
      CHECK(e.values() == y.values());
    }
  }
}

TEST_CASE("a row exponential over no columns sums to zero") {
  Array<> x(0), m{-infinity, 1}, e(0), s(2);
  run(RowExponentialSpec{2, 0}, x, m, e, s);
  CHECK(s.values() == std::vector<float>{0, 0});
}

TEST_CASE("the gradient of softmax is its slope") {
  const std::int64_t rows = 3, columns = 7;
  const std::vector<float> values = random_values(rows * columns, 6, -2, 2);
  const std::vector<float> gradient = random_values(rows * columns, 7);
  Array<> x(values), m(rows), y(rows * columns), s(rows), dy(gradient), r(rows), dx(rows * columns);
  run(RowMaximumSpec{rows, columns}, x, m);
  run(RowExponentialSpec{rows, columns}, x, m, y, s);
  run_kernel(RowDivideSpec{rows, columns}, {y.data(), s.data(), y.data()});
  run(RowDotSpec{rows, columns}, y, dy, r);
  run(SoftmaxGradientSpec{rows, columns}, y, dy, r, dx);

  std::vector<double> expected;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < columns; ++i) {
      // sum_j dy_j softmax(x)_j as a function of x_i
      const auto of = [&](double moved) {
        double sum = 0, weighted = 0;
        for (std::int64_t j = 0; j < columns; ++j) {
          const double exponential = std::exp(j == i ? moved : entry(values, columns, row, j));
          sum += exponential;
          weighted += exponential * entry(gradient, columns, row, j);
        }
        return weighted / sum;
      };
      expected.push_back(slope(of, entry(values, columns, row, i)));
    }
  }
  check_close(dx, expected, 2e-6, 2e-7);
}

TEST_CASE("results by row do not depend on the number of threads") {
  const std::int64_t rows = 3001, columns = 101;
  const std::vector<float> values = random_values(rows * columns, 8);
  Array<> x(values), m(rows), s(rows), m3(rows), s3(rows), e(rows * columns), e3(rows * columns);
  run_kernel(RowMaximumSpec{rows, columns}, {x.data(), m.data()}, 1);
  run_kernel(RowMaximumSpec{rows, columns}, {x.data(), m3.data()}, 3);
  run_kernel(RowExponentialSpec{rows, columns}, {x.data(), m.data(), e.data(), s.data()}, 1);
  run_kernel(RowExponentialSpec{rows, columns}, {x.data(), m.data(), e3.data(), s3.data()}, 3);
  CHECK(m.values() == m3.values());
  CHECK(e.values() == e3.values());
  CHECK(s.values() == s3.values());
}

TEST_CASE("rows of length 1 and their gradients are right for any number of columns") {
  for (const std::int64_t rows : {0, 1, 5}) {
    for (const std::int64_t columns : odd_sizes) {
      const std::vector<float> values = random_values(rows * columns, 8);
      const std::vector<float> gradient = random_values(rows * columns, 9);
      std::vector<double> expected, expected_gradient;
      for (std::int64_t row = 0; row < rows; ++row) {
        double square = 0, product = 0;
        for (std::int64_t j = 0; j < columns; ++j) {
          square += std::pow(entry(values, columns, row, j), 2);
          product += entry(values, columns, row, j) * entry(gradient, columns, row, j);
        }
        const double length = std::sqrt(square);
        for (std::int64_t j = 0; j < columns; ++j) {
          const double unit = entry(values, columns, row, j) / length;
          expected.push_back(unit);
          expected_gradient.push_back((entry(gradient, columns, row, j) - unit * product / length) /
                                      length);
        }
      }
      Array<> x(values), dy(gradient), s(rows), r(rows), y(rows * columns), dx(rows * columns);
      run(RowDotSpec{rows, columns}, x, x, s);
      run(UnitRowSpec{rows, columns, 1e12f}, x, s, y);
      check_close(y, expected, 1e-6);
      run(RowDotSpec{rows, columns}, y, dy, r);
      run(UnitRowGradientSpec{rows, columns, 1e12f}, y, dy, s, r, dx);
      // dy and y * r cancel, where there is one column entirely.
      check_close(dx, expected_gradient, 1e-5, 1e-5);
    }
  }
}

TEST_CASE("the factor of a short row is the limit, which has no gradient") {
  Array<> x{0, 0, 0.125f, 0}, s{0, 0.015625f}, dy{1, 2, 3, 4}, r{0, 1}, y(4), dx(4);
  run(UnitRowSpec{2, 2, 4}, x, s, y);
  CHECK(y.values() == std::vector<float>{0, 0, 0.5f, 0});
  run(UnitRowGradientSpec{2, 2, 4}, y, dy, s, r, dx);
  CHECK(dx.values() == std::vector<float>{4, 8, 12, 16});
}

}  // namespace meshwork::test::rows_test

#include "runtime/device/kernels/row_normalization.h"

#include <cmath>

#include "tests/runtime/device/support.h"

namespace meshwork::test::row_normalization_test {

namespace {

// Rows far from 0, of which the first is constant.
std::vector<float> rows_of_numbers(std::int64_t rows, std::int64_t columns) {
  std::vector<float> x = random_values(rows * columns, 1);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t row = i / static_cast<std::size_t>(columns);
    x[i] = row == 0 ? 3.0f : x[i] + 10.0f * static_cast<float>(row % 20);
  }
  return x;
}

struct Truth {
  std::vector<double> mean, inverse, y, dx, dgamma, dbeta;
};

// The formulas of the page's comment, and the gradient of sum(y * dy).
Truth truth_of(const RowNormalization& at, const std::vector<float>& x,
               const std::vector<float>& gamma, const std::vector<float>& beta,
               const std::vector<float>& dy) {
  const auto columns = static_cast<std::size_t>(at.columns);
  const double count = static_cast<double>(at.columns);
  Truth truth{{}, {}, {}, {}, std::vector<double>(columns), std::vector<double>(columns)};
  for (std::size_t row = 0; row < static_cast<std::size_t>(at.rows); ++row) {
    const std::size_t first = row * columns;
    double mean = 0, variance = 0, gradients = 0, products = 0;
    for (std::size_t j = 0; j < columns && at.centered; ++j) {
      mean += static_cast<double>(x[first + j]) / count;
    }
    for (std::size_t j = 0; j < columns; ++j) {
      variance += std::pow(static_cast<double>(x[first + j]) - mean, 2) / count;
    }
    const double inverse = 1 / std::sqrt(variance + at.epsilon);
    truth.mean.push_back(mean);
    truth.inverse.push_back(inverse);
    const auto normalized = [&](std::size_t j) {
      return (static_cast<double>(x[first + j]) - mean) * inverse;
    };
    const auto gradient = [&](std::size_t j) {
      return static_cast<double>(dy[first + j]) * (at.scale ? static_cast<double>(gamma[j]) : 1);
    };
    for (std::size_t j = 0; j < columns; ++j) {
      truth.y.push_back(normalized(j) * (at.scale ? static_cast<double>(gamma[j]) : 1) +
                        (at.center ? static_cast<double>(beta[j]) : 0));
      gradients += at.centered ? gradient(j) / count : 0;
      products += gradient(j) * normalized(j) / count;
      truth.dgamma[j] += static_cast<double>(dy[first + j]) * normalized(j);
      truth.dbeta[j] += static_cast<double>(dy[first + j]);
    }
    for (std::size_t j = 0; j < columns; ++j) {
      truth.dx.push_back(inverse * (gradient(j) - gradients - normalized(j) * products));
    }
  }
  return truth;
}

}  // namespace

TEST_CASE("rows are normalized as the formula says, known or not, and so are their gradients") {
  for (const std::int64_t rows : {0, 1, 7, 300}) {
    for (const std::int64_t columns : {1, 5, 16, 37, 130, 600}) {
      for (const int options : {0, 1, 2, 3, 4, 7}) {
        const RowNormalization at{.rows = rows,
                                  .columns = columns,
                                  .count = columns,
                                  .centered = (options & 1) != 0,
                                  .scale = (options & 2) != 0,
                                  .center = (options & 4) != 0,
                                  .epsilon = 1e-3};
        INFO(at.text("row normalize") << ", options " << options);
        const std::vector<float> numbers = rows_of_numbers(rows, columns);
        const std::vector<float> factors = random_values(columns, 2),
                                 shifts = random_values(columns, 3);
        const std::vector<float> gradients = random_values(rows * columns, 4);
        const Truth truth = truth_of(at, numbers, factors, shifts, gradients);
        Array<> x(numbers), gamma(factors), beta(shifts), dy(gradients);
        Array<> mean(rows), inverse(rows), y(rows * columns), dx(rows * columns);
        Array<> dgamma(columns), dbeta(columns);
        Array<double> z(2 * rows), w(2 * rows);

        const auto with = [&](std::vector<void*> operands, std::vector<void*> more) {
          operands.insert(operands.end(), more.begin(), more.end());
          return operands;
        };
        const std::vector<void*> of_rows{x.data(), mean.data(), inverse.data()};
        std::vector<void*> inputs = of_rows;
        if (at.scale) inputs.push_back(gamma.data());
        const std::vector<void*> of_gradient = with(inputs, {dy.data()});
        if (at.center) inputs.push_back(beta.data());
        std::vector<void*> variables = with(of_rows, {dy.data()});
        if (at.scale) variables.push_back(dgamma.data());
        if (at.center) variables.push_back(dbeta.data());

        // A row far from 0 loses as many digits as float32 cannot hold of it.
        const double scale = 2e-4;
        run_kernel(RowNormalizeSpec{at}, with(inputs, {y.data()}), 1);
        check_close(mean, truth.mean, 1e-6, 1e-6);
        check_close(inverse, truth.inverse, 1e-5);
        check_close(y, truth.y, scale, scale);
        run_kernel(RowNormalizeGradientSpec{at}, with(of_gradient, {dx.data()}), 1);
        check_close(dx, truth.dx, scale, scale);
        run_kernel(RowNormalizeVariablesSpec{at}, variables, 1);
        if (at.scale) check_close(dgamma, truth.dgamma, scale, 10 * scale);
        if (at.center) check_close(dbeta, truth.dbeta, 1e-6, 1e-6);

        Array<> known(rows * columns), known_dx(rows * columns), m(rows), n(rows);
        run(RowMomentsSpec{rows, columns}, x, z);
        run(RowStatisticsSpec{at}, z, m, n);
        check_close(m, truth.mean, 1e-6, 1e-6);
        check_close(n, truth.inverse, 1e-5);
        run_kernel(RowNormalizeSpec{at, true}, with(inputs, {known.data()}), 3);
        check_close(known, truth.y, scale, scale);
        run_kernel(RowGradientSumsSpec{at}, with(of_gradient, {w.data()}), 1);
        run_kernel(RowNormalizeGradientSpec{at, true},
                   with(of_gradient, {w.data(), known_dx.data()}), 3);
        check_close(known_dx, truth.dx, scale, scale);

        // As many threads as there are give the same bits.
        Array<> again(rows * columns), again_gamma(columns), again_beta(columns);
        run_kernel(RowNormalizeSpec{at}, with(inputs, {again.data()}), 3);
        CHECK(again.values() == y.values());
        std::vector<void*> again_variables = with(of_rows, {dy.data()});
        if (at.scale) again_variables.push_back(again_gamma.data());
        if (at.center) again_variables.push_back(again_beta.data());
        run_kernel(RowNormalizeVariablesSpec{at}, again_variables, 3);
        if (at.scale) CHECK(again_gamma.values() == dgamma.values());
        if (at.center) CHECK(again_beta.values() == dbeta.values());
      }
    }
  }
}

TEST_CASE("a row is normalized in its place") {
  const RowNormalization at{.rows = 9, .columns = 70, .count = 70};
  const std::vector<float> numbers = rows_of_numbers(9, 70);
  Array<> x(numbers), in_place(numbers), gamma(random_values(70, 2)), beta(random_values(70, 3));
  Array<> mean(9), inverse(9), y(9 * 70);
  run(RowNormalizeSpec{at}, x, mean, inverse, gamma, beta, y);
  run(RowNormalizeSpec{at}, in_place, mean, inverse, gamma, beta, in_place);
  CHECK(in_place.values() == y.values());
}

}  // namespace meshwork::test::row_normalization_test

#include "runtime/device/kernels/normalization.h"
#include "runtime/device/kernel_spec.h"
#include "runtime/shape/partition.h"
#include "tests/runtime/device/support.h"

namespace meshwork::test::normalization_test {

namespace {

std::size_t index(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

/// Batch normalization of all rows by the textbook, in double: two passes over x for the variance,
/// and the gradient from the derivative of mean and deviation.
struct Reference {
  std::int64_t rows, channels;
  std::vector<float> x, dy, gamma, beta;
  double epsilon = 1e-3;
  bool scale = true, center = true, relu = false, frozen = false;
  std::vector<double> mean, variance, y, dx, dgamma, dbeta;

  void work_out() {
    y.assign(x.size(), 0);
    dx.assign(x.size(), 0);
    dgamma.assign(index(channels), 0);
    dbeta.assign(index(channels), 0);
    if (!frozen) {
      mean.assign(index(channels), 0);
      variance.assign(index(channels), 0);
    }
    for (std::int64_t c = 0; c < channels; ++c) channel(c);
  }

  void channel(std::int64_t c) {
    const double count = static_cast<double>(rows);
    const auto value = [&](std::int64_t row) {
      return static_cast<double>(x[index(row * channels + c)]);
    };
    if (!frozen && rows > 0) {
      for (std::int64_t row = 0; row < rows; ++row) mean[index(c)] += value(row) / count;
      for (std::int64_t row = 0; row < rows; ++row) {
        variance[index(c)] += (value(row) - mean[index(c)]) * (value(row) - mean[index(c)]) / count;
      }
    }
    const double inverse = 1 / std::sqrt(variance[index(c)] + epsilon);
    const double factor = scale ? static_cast<double>(gamma[index(c)]) : 1.0;
    double sum = 0, product = 0;
    std::vector<double> g(index(rows)), normal(index(rows));
    for (std::int64_t row = 0; row < rows; ++row) {
      normal[index(row)] = (value(row) - mean[index(c)]) * inverse;
      const double result =
          normal[index(row)] * factor + (center ? static_cast<double>(beta[index(c)]) : 0.0);
      const bool open = !relu || result > 0;
      y[index(row * channels + c)] = open ? result : 0;
      g[index(row)] = open ? static_cast<double>(dy[index(row * channels + c)]) : 0;
      sum += g[index(row)];
      product += g[index(row)] * normal[index(row)];
    }
    dbeta[index(c)] = sum;
    dgamma[index(c)] = product;
    for (std::int64_t row = 0; row < rows; ++row) {
      const double learnt = frozen ? 0 : (sum + normal[index(row)] * product) / count;
      dx[index(row * channels + c)] = factor * inverse * (g[index(row)] - learnt);
    }
  }
};

/// Runs `spec` on operands of which gamma and beta are there as the shape says.
void run_with(const KernelSpec& spec, const NormalizationShape& at, std::vector<void*> before,
              Array<>& gamma, Array<>& beta, std::vector<void*> after) {
  if (at.scale) before.push_back(gamma.data());
  if (at.center) before.push_back(beta.data());
  before.insert(before.end(), after.begin(), after.end());
  run_kernel(spec, before);
}

/// Training as `parts` ranks do it, whose blocks are rows [floor(i rows / parts), ...).
void check_training(Reference of, int parts) {
  of.work_out();
  const std::int64_t channels = of.channels;
  const auto size = [&](const Range& rows) { return rows.length() * channels; };
  Array<> gamma(of.gamma), beta(of.beta);
  Array<> moving_mean(random_values(channels, 5)),
      moving_variance(random_values(channels, 6, 0, 2));
  Array<> mean(channels), inverse(channels), new_mean(channels), new_variance(channels);
  std::vector<double> moments(index(2 * channels)), sums(index(2 * channels));
  const auto piece = [&](const std::vector<float>& values, const Range& rows) {
    return std::vector<float>(values.begin() + rows.begin * channels,
                              values.begin() + rows.end * channels);
  };
  const auto add = [](std::vector<double>& to, const Array<double>& z) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += z[i];
  };
  for (int part = 0; part < parts; ++part) {
    const Range rows = block_range(of.rows, parts, part);
    Array<> x(piece(of.x, rows));
    Array<double> z(2 * channels);
    run(ChannelMomentsSpec{rows.length(), channels}, x, z);
    add(moments, z);
  }
  Array<double> all(moments);
  run(ChannelStatisticsSpec{channels, of.rows, of.epsilon, 0.9}, all, moving_mean, moving_variance,
      mean, inverse, new_mean, new_variance);
  check_close(mean, of.mean, 1e-7, 1e-7);
  std::vector<double> expected_inverse, expected_mean, expected_variance;
  const double momentum = of.rows > 0 ? 0.9 : 1.0;
  for (std::int64_t c = 0; c < channels; ++c) {
    expected_inverse.push_back(1 / std::sqrt(of.variance[index(c)] + of.epsilon));
    expected_mean.push_back(momentum * static_cast<double>(moving_mean[index(c)]) +
                            (1 - momentum) * of.mean[index(c)]);
    expected_variance.push_back(momentum * static_cast<double>(moving_variance[index(c)]) +
                                (1 - momentum) * of.variance[index(c)]);
  }
  check_close(inverse, expected_inverse, 1e-7);
  check_close(new_mean, expected_mean, 1e-7, 1e-8);
  check_close(new_variance, expected_variance, 1e-7);

  NormalizationShape at{0, channels, of.scale, of.center,
                        of.relu ? Activation::relu : Activation::linear};
  for (int part = 0; part < parts; ++part) {
    const Range rows = block_range(of.rows, parts, part);
    at.rows = rows.length();
    Array<> x(piece(of.x, rows)), dy(piece(of.dy, rows)), y(size(rows));
    run_with(NormalizeSpec{at}, at, {x.data(), mean.data(), inverse.data()}, gamma, beta,
             {y.data()});
    CHECK(y.intact());
    check_close(y, {of.y.begin() + rows.begin * channels, of.y.begin() + rows.end * channels}, 1e-5,
                1e-5);
    Array<double> z(2 * channels);
    run_with(NormalizeGradientSumsSpec{at}, at, {x.data(), dy.data(), mean.data(), inverse.data()},
             gamma, beta, {z.data()});
    CHECK(z.intact());
    add(sums, z);
  }
  const double rounding = 1e-6 * std::sqrt(static_cast<double>(of.rows) + 1);
  check_close(std::vector<double>(sums.begin(), sums.begin() + channels), of.dbeta, 1e-6, rounding);
  check_close(std::vector<double>(sums.begin() + channels, sums.end()), of.dgamma, 1e-5, rounding);
  Array<double> z(sums);
  for (int part = 0; part < parts; ++part) {
    const Range rows = block_range(of.rows, parts, part);
    at.rows = rows.length();
    Array<> x(piece(of.x, rows)), dy(piece(of.dy, rows)), dx(size(rows));
    const NormalizeGradientSpec spec{.at = at, .count = of.rows};
    run_with(spec, at, {x.data(), dy.data(), mean.data(), inverse.data()}, gamma, beta,
             {z.data(), dx.data()});
    CHECK(dx.intact());
    check_close(dx, {of.dx.begin() + rows.begin * channels, of.dx.begin() + rows.end * channels},
                2e-5, 2e-5);
    run_with(spec, at, {x.data(), dy.data(), mean.data(), inverse.data()}, gamma, beta,
             {z.data(), dy.data()});
    CHECK(dy.values() == dx.values());
  }
}

Reference random_rows(std::int64_t rows, std::int64_t channels) {
  Reference of{rows,
               channels,
               random_values(rows * channels, 1, -1, 3),
               random_values(rows * channels, 2),
               random_values(channels, 3, 0.5, 2),
               random_values(channels, 4)};
  // Where rows are alike, what the rounding of the mean does grows by 1 / sqrt(epsilon).
  of.epsilon = 0.1;
  // With relu a result within rounding of 0 could go either way: there are none.
  for (bool moved = true; moved;) {
    moved = false;
    of.relu = true;
    of.work_out();
    Reference open = of;
    open.relu = false;
    open.work_out();
    for (std::size_t i = 0; i < of.x.size(); ++i) {
      if (std::fabs(open.y[i]) < 1e-4) {
        of.x[i] += 0.01f;
        moved = true;
      }
    }
    if (rows == 1) break;  // then x is its own mean, and y is beta
  }
  return of;
}

}  // namespace

TEST_CASE("batch normalization is that of all rows, however they are divided") {
  for (const std::int64_t rows : {0, 1, 2, 5, 37, 300}) {
    for (const std::int64_t channels : {0, 1, 2, 3, 7, 8, 12, 16, 17, 24, 63, 64, 65, 100}) {
      Reference of = random_rows(rows, channels);
      for (const int parts : {1, 3}) {
        for (const bool relu : {false, true}) {
          of.relu = relu;
          check_training(of, parts);
        }
      }
    }
  }
}

TEST_CASE("batch normalization is right with and without scale and centre") {
  Reference of = random_rows(50, 12);
  of.relu = false;
  for (const bool scale : {false, true}) {
    for (const bool center : {false, true}) {
      of.scale = scale;
      of.center = center;
      check_training(of, 2);
    }
  }
}

TEST_CASE("moments are exact to double over many rows and for large means") {
  // A mean of a thousand deviations: in float32 the variance would be lost.
  for (const std::int64_t channels : {1, 12, 70}) {
    const std::int64_t rows = 30000;
    const std::vector<float> values = random_values(rows * channels, 7, 999, 1001);
    std::vector<long double> sums(index(2 * channels));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t c = i % index(channels);
      const long double value = static_cast<long double>(values[i]);
      sums[c] += value;
      sums[index(channels) + c] += value * value;
    }
    Array<> x(values);
    Array<double> z(2 * channels), z3(2 * channels);
    run(ChannelMomentsSpec{rows, channels}, x, z);
    check_close(z, std::vector<double>(sums.begin(), sums.end()), 1e-14);
    run_kernel(ChannelMomentsSpec{rows, channels}, {x.data(), z3.data()}, 3);
    CHECK(z.values() == z3.values());
  }
}

TEST_CASE("frozen statistics normalize by the moving values, which do not depend on x") {
  for (const bool relu : {false, true}) {
    Reference of = random_rows(20, 7);
    of.relu = relu;
    of.frozen = true;
    for (double& value : of.mean) value = 0.25;
    for (double& value : of.variance) value = 2;
    of.work_out();
    Array<> x(of.x), dy(of.dy), gamma(of.gamma), beta(of.beta);
    Array<> mean(std::vector<float>(7, 0.25f)), variance(std::vector<float>(7, 2.0f));
    Array<> inverse(7), y(20 * 7), dx(20 * 7);
    run(InverseDeviationSpec{7, of.epsilon}, variance, inverse);
    const NormalizationShape at{20, 7, true, true, relu ? Activation::relu : Activation::linear};
    run(NormalizeSpec{at}, x, mean, inverse, gamma, beta, y);
    check_close(y, of.y, 1e-5, 1e-5);
    run(NormalizeGradientSpec{.at = at, .frozen = true}, x, dy, mean, inverse, gamma, beta, dx);
    check_close(dx, of.dx, 1e-5, 1e-5);
  }
}

TEST_CASE("the gradient passes where relu let the value pass, to the bit") {
  // Values so close to 0 that only the same rounding finds the same ones.
  const std::int64_t rows = 4096, channels = 12;
  Array<> x(random_values(rows * channels, 8, -1e-7, 1e-7)),
      dy(std::vector<float>(rows * channels, 1));
  Array<> mean(random_values(channels, 9, -1e-7, 1e-7)), inverse(random_values(channels, 10, 1, 9));
  Array<> gamma(random_values(channels, 11)), beta(random_values(channels, 12, -1e-7, 1e-7));
  Array<> y(rows * channels), dx(rows * channels);
  Array<double> z(2 * channels);
  const NormalizationShape at{rows, channels, true, true, Activation::relu};
  run(NormalizeSpec{at}, x, mean, inverse, gamma, beta, y);
  run(NormalizeGradientSpec{.at = at, .frozen = true}, x, dy, mean, inverse, gamma, beta, dx);
  run(NormalizeGradientSumsSpec{at}, x, dy, mean, inverse, gamma, beta, z);
  std::vector<double> open(index(channels));
  std::int64_t differences = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    if ((y[i] > 0) != (dx[i] != 0)) ++differences;
    open[i % index(channels)] += y[i] > 0 ? 1 : 0;
  }
  CHECK(differences == 0);
  check_close(std::vector<double>(z.data(), z.data() + channels), open, 0);
}

TEST_CASE("normalization does not depend on the number of threads") {
  const std::int64_t rows = 20000, channels = 24;
  const NormalizationShape at{rows, channels, true, true, Activation::relu};
  Array<> x(random_values(rows * channels, 13)), dy(random_values(rows * channels, 14));
  Array<> mean(random_values(channels, 15)), inverse(random_values(channels, 16, 1, 2));
  Array<> gamma(random_values(channels, 17)), beta(random_values(channels, 18));
  Array<double> z(2 * channels), z3(2 * channels);
  Array<> y(rows * channels), y3(rows * channels);
  std::vector<void*> operands{x.data(),       dy.data(),    mean.data(),
                              inverse.data(), gamma.data(), beta.data()};
  for (const int threads : {1, 3}) {
    std::vector<void*> with = operands;
    with.push_back(threads == 1 ? z.data() : z3.data());
    run_kernel(NormalizeGradientSumsSpec{at}, with, threads);
    with.erase(with.begin() + 1);
    with.back() = threads == 1 ? y.data() : y3.data();
    run_kernel(NormalizeSpec{at}, with, threads);
  }
  CHECK(z.values() == z3.values());
  CHECK(y.values() == y3.values());
}

}  // namespace meshwork::test::normalization_test

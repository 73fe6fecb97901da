#include "tests/runtime/device/support.h"

#include <cmath>
#include <limits>

namespace meshwork::test {

namespace {

struct Product {
  std::vector<float> a, b, bias, before;
};

Product random_product(const MatmulSpec& s) {
  return {random_values(s.m * s.k, 1), random_values(s.k * s.n, 2), random_values(s.n, 3),
          random_values(s.m * s.n, 4)};
}

/// The specification in three loops.
std::vector<double> reference(const MatmulSpec& s, const Product& of) {
  std::vector<double> c;
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < s.n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < s.k; ++l) {
        const std::int64_t a = s.transpose_a ? l * s.m + i : i * s.k + l;
        const std::int64_t b = s.transpose_b ? j * s.k + l : l * s.n + j;
        sum += static_cast<double>(of.a[static_cast<std::size_t>(a)]) *
               static_cast<double>(of.b[static_cast<std::size_t>(b)]);
      }
      if (s.bias) sum += static_cast<double>(of.bias[static_cast<std::size_t>(j)]);
      if (s.accumulate)
        sum += static_cast<double>(of.before[static_cast<std::size_t>(i * s.n + j)]);
      if (s.activation == Activation::relu && sum < 0) sum = 0;
      c.push_back(sum);
    }
  }
  return c;
}

void check_product(const MatmulSpec& spec) {
  const Product of = random_product(spec);
  Array<> a(of.a), b(of.b), bias(of.bias), c(spec.m * spec.n);
  if (spec.accumulate) std::copy(of.before.begin(), of.before.end(), c.data());
  if (spec.bias) {
    run(spec, a, b, bias, c);
  } else {
    run(spec, a, b, c);
  }
  INFO(describe(spec));
  // Terms of up to 1, each addition rounded to 2^-24 of a sum that random signs keep near sqrt(k).
  check_close(c, reference(spec, of), 1e-6, 1e-6 * std::sqrt(static_cast<double>(spec.k) + 1));
  CHECK(a.values() == of.a);
  CHECK(b.values() == of.b);
}

}  // namespace

TEST_CASE("relu behind a product lets a NaN through") {
  Array<> a{1, std::numeric_limits<float>::quiet_NaN(), -1, -2}, b{1, 1}, bias{0}, c(2);
  run(MatmulSpec{.m = 2, .n = 1, .k = 2, .bias = true, .activation = Activation::relu}, a, b, bias,
      c);
  CHECK(std::isnan(c[0]));
  CHECK(c[1] == 0);
  run(MatmulSpec{.m = 2, .n = 1, .k = 2, .activation = Activation::relu}, a, b, c);
  CHECK(std::isnan(c[0]));
}

TEST_CASE("a product is right for every form and odd sizes, none and one included") {
  for (const std::int64_t m : {0, 1, 5, 33}) {
    for (const std::int64_t n : {0, 1, 7, 18}) {
      for (const std::int64_t k : {0, 1, 3, 65}) {
        for (const bool transpose_a : {false, true}) {
          for (const bool transpose_b : {false, true}) {
            MatmulSpec spec{.m = m, .n = n, .k = k};
            spec.transpose_a = transpose_a;
            spec.transpose_b = transpose_b;
            check_product(spec);
            spec.accumulate = true;
            check_product(spec);
            spec.accumulate = false;
            spec.activation = Activation::relu;
            check_product(spec);
            spec.bias = true;
            check_product(spec);
            spec.activation = Activation::linear;
            check_product(spec);
          }
        }
      }
    }
  }
}

TEST_CASE("the products of a dense network are right") {
  check_product({.m = 64, .n = 256, .k = 784, .bias = true, .activation = Activation::relu});
  check_product({.m = 784, .n = 256, .k = 64, .transpose_a = true});
  check_product({.m = 64, .n = 256, .k = 10, .transpose_b = true});
}

TEST_CASE("a product over no terms is the bias, activated") {
  Array<> a(0), b(0), bias{-2.0f, 3.0f}, c(4);
  run(MatmulSpec{.m = 2, .n = 2, .k = 0, .bias = true, .activation = Activation::relu}, a, b, bias,
      c);
  CHECK(c.values() == std::vector<float>{0, 3, 0, 3});
}

TEST_CASE("a product that accumulates no terms changes nothing") {
  Array<> a(0), b(0), c{1, 2, 3, 4};
  run(MatmulSpec{.m = 2, .n = 2, .k = 0, .accumulate = true}, a, b, c);
  CHECK(c.values() == std::vector<float>{1, 2, 3, 4});
}

TEST_CASE("a product gives the same bits again, at other addresses too") {
  for (const bool transpose_a : {false, true}) {
    const MatmulSpec spec{.m = 61, .n = 35, .k = 127, .transpose_a = transpose_a};
    const Product of = random_product(spec);
    Array<> a(of.a), b(of.b), c(61 * 35);
    run(spec, a, b, c);
    Array<> shifted(static_cast<std::int64_t>(of.a.size()) + 1);
    std::copy(of.a.begin(), of.a.end(), shifted.data() + 1);
    Array<> again(61 * 35);
    run_kernel(spec, {shifted.data() + 1, b.data(), again.data()});
    CHECK(c.values() == again.values());
  }
}

TEST_CASE("a product that cannot be is refused with its description") {
  CHECK_THROWS_WITH(
      run_kernel(MatmulSpec{.m = 2, .n = 3, .k = 4, .activation = Activation::tanh}, {}),
      Catch::Contains("matmul 2x3x4") && Catch::Contains("tanh"));
  CHECK_THROWS_WITH(
      run_kernel(MatmulSpec{.m = 2, .n = 3, .k = 4, .accumulate = true, .bias = true}, {}),
      Catch::Contains("accumulates and has a bias"));
}

}  // namespace meshwork::test

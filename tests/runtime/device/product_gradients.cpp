// What a product takes along of gradients, and relu masks, against double precision.
#include <array>
#include <cmath>

#include "runtime/device/kernels/products.h"
#include "tests/runtime/device/products.h"

namespace meshwork::test::product_gradients_test {

namespace {

double derivative_at(Activation activation, double value) {
  const double pi = std::acos(-1.0);
  switch (activation) {
    case Activation::relu:
      return value > 0 ? 1 : 0;
    case Activation::sigmoid:
      return value * (1 - value);
    case Activation::tanh:
      return 1 - value * value;
    case Activation::gelu:
      return std::erfc(-value / std::sqrt(2.0)) / 2 +
             value * std::exp(-value * value / 2) / std::sqrt(2 * pi);
    default:
      return 1;
  }
}

/// The products of a net with odd layers, none and one included.
const std::array<std::array<std::int64_t, 3>, 11> shapes{{{0, 3, 4},
                                                          {3, 0, 4},
                                                          {3, 4, 0},
                                                          {1, 1, 1},
                                                          {5, 7, 3},
                                                          {1, 130, 9},
                                                          {33, 18, 65},
                                                          {17, 128, 10},
                                                          {9, 127, 2},
                                                          {4, 300, 31},
                                                          {64, 256, 100}}};

bool bit_of(const Array<std::uint8_t>& mask, std::int64_t columns, std::int64_t i) {
  const std::int64_t row = i / columns, j = i % columns;
  const auto byte = static_cast<std::size_t>(row * relu_mask_row_bytes(columns) + j / 8);
  return (mask[byte] >> (j % 8) & 1) != 0;
}

/// Runs `body(spec)` for each shape in each precision, with operands as a program's arena has them.
template <class Body>
void for_each_shape(const Body& body) {
  operands_are_aligned = true;
  for (const auto& [m, n, k] : shapes) {
    for (const Precision precision : precisions()) {
      body(MatmulSpec{.m = m, .n = n, .k = k, .precision = precision});
    }
  }
  operands_are_aligned = false;
}

}  // namespace

TEST_CASE("a product takes along the derivative of an activation, at its value") {
  for_each_shape([](MatmulSpec spec) {
    for (const Activation activation :
         {Activation::relu, Activation::sigmoid, Activation::tanh, Activation::gelu}) {
      for (const bool transpose_b : {false, true}) {
        spec.derivative = activation;
        spec.transpose_b = transpose_b;
        INFO(spec.text());
        const Factors of = random_factors(spec);
        const std::vector<float> at = random_values(spec.m * spec.n, 5);
        std::vector<double> expected = product_of(spec, of);
        for (std::size_t i = 0; i < expected.size(); ++i) {
          expected[i] *= derivative_at(activation, static_cast<double>(at[i]));
        }
        Array<> a(of.a), b(of.b), value(at), c(spec.m * spec.n);
        run(spec, a, b, value, c);
        check_close(c, expected, 1e-5, absolute_error(spec));
        CHECK(value.values() == at);
      }
    }
  });
}

TEST_CASE("the gradient of a kernel brings along the sums over the columns of the other factor") {
  for_each_shape([](MatmulSpec spec) {
    if (spec.precision != Precision::float32) return;
    spec.transpose_a = spec.column_sums = true;
    INFO(spec.text());
    const Factors of = random_factors(spec);
    MatmulSpec ones = spec;
    ones.m = 1;
    const std::vector<double> sums =
        product_of(ones, {std::vector<float>(static_cast<std::size_t>(spec.k), 1.0f), of.b});
    Array<> a(of.a), b(of.b), c(spec.m * spec.n), s(spec.n);
    run(spec, a, b, c, s);
    check_close(c, product_of(spec, of), 1e-6, absolute_error(spec));
    check_close(s, sums, 1e-6, absolute_error(spec));
    CHECK(b.values() == of.b);
  });
}

TEST_CASE("relu behind a product writes the mask of what is above 0, and a product reads it") {
  for_each_shape([](MatmulSpec spec) {
    for (const bool bias : {false, true}) {
      MatmulSpec forward = spec;
      forward.bias = bias;
      forward.activation = Activation::relu;
      MatmulSpec unmasked = forward;
      forward.mask = true;
      INFO(forward.text());
      const Factors of = random_factors(forward);
      Array<> a(of.a), b(of.b), of_bias(random_values(spec.n, 3)), y(spec.m * spec.n),
          without(spec.m * spec.n);
      Array<std::uint8_t> mask(spec.m * relu_mask_row_bytes(spec.n));
      if (bias) {
        run(forward, a, b, of_bias, y, mask);
        run(unmasked, a, b, of_bias, without);
      } else {
        run(forward, a, b, y, mask);
        run(unmasked, a, b, without);
      }
      const std::vector<float> expected = without.values();
      check_close(y, std::vector<double>(expected.begin(), expected.end()), 1e-6,
                  absolute_error(spec));
      bool right = true;
      for (std::int64_t i = 0; i < spec.m * spec.n; ++i) {
        right = right && bit_of(mask, spec.n, i) == (y[static_cast<std::size_t>(i)] > 0);
      }
      CHECK(right);

      MatmulSpec backward = spec;
      backward.transpose_b = backward.mask = true;
      backward.derivative = Activation::relu;
      std::vector<double> gradient = product_of(backward, of);
      for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] *= y[i] > 0 ? 1 : 0;
      Array<> dx(spec.m * spec.n);
      run(backward, a, b, mask, dx);
      check_close(dx, gradient, 1e-6, absolute_error(spec));
    }
  });
}

TEST_CASE("a relu mask has no bit for a NaN, which goes through") {
  operands_are_aligned = true;
  Array<> a{std::nanf(""), 1}, b{1, 2, 0}, bias{0, -3, 0}, y(6);
  Array<std::uint8_t> mask(2 * relu_mask_row_bytes(3));
  MatmulSpec spec{.m = 2, .n = 3, .k = 1, .bias = true, .activation = Activation::relu};
  spec.mask = true;
  run(spec, a, b, bias, y, mask);
  CHECK(std::isnan(y[0]));
  CHECK(std::isnan(y[2]));
  CHECK((mask[0] & 7) == 0);
  CHECK((mask[static_cast<std::size_t>(relu_mask_row_bytes(3))] & 7) == 1);
  operands_are_aligned = false;
}

TEST_CASE("a derivative comes along with factors that are stored in bfloat16 too") {
  operands_are_aligned = true;
  for (const auto& [m, n, k] : shapes) {
    MatmulSpec spec{.m = m, .n = n, .k = k, .precision = Precision::bfloat16, .narrow = true};
    const Factors of = random_factors(spec);
    Array<std::uint16_t> a = stored_in_bfloat16(of.a), b = stored_in_bfloat16(of.b);
    const std::vector<float> at = random_values(m * n, 5);
    Array<> value(at), c(m * n);
    spec.derivative = Activation::tanh;
    INFO(spec.text());
    std::vector<double> expected = product_of(spec, of);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] *= derivative_at(spec.derivative, static_cast<double>(at[i]));
    }
    run(spec, a, b, value, c);
    check_close(c, expected, 1e-5, absolute_error(spec));
  }
  operands_are_aligned = false;
}

TEST_CASE("what comes along has the same bits on any number of threads") {
  MatmulSpec spec{.m = 301, .n = 259, .k = 1100, .transpose_a = true, .column_sums = true};
  const Factors of = random_factors(spec);
  Array<> a(of.a), b(of.b), c(spec.m * spec.n), one(spec.n);
  run(spec, a, b, c, one);
  for (const int threads : {2, 3}) {
    Array<> several(spec.n);
    run_kernel(spec, {a.data(), b.data(), c.data(), several.data()}, threads);
    CHECK(several.values() == one.values());
  }
}

TEST_CASE("gradients that a product cannot take along are refused with its description") {
  MatmulSpec spec{.m = 2, .n = 3, .k = 4};
  const auto refused = [](const MatmulSpec& one, const std::string& why) {
    CHECK_THROWS_WITH(kernel_device().compile(one),
                      Catch::Contains("matmul") && Catch::Contains(why));
  };
  spec.derivative = Activation::softmax;
  refused(spec, "softmax is not elementwise");
  spec.derivative = Activation::relu;
  spec.bias = true;
  refused(spec, "relu gradient takes along what goes together with nothing else");
  spec.bias = false;
  spec.column_sums = true;
  refused(spec, "goes together with nothing else");
  spec.derivative = Activation::linear;
  spec.transpose_b = true;
  refused(spec, "sums the columns of a transposed factor");
  spec.transpose_b = false;
  spec.precision = Precision::bfloat16;
  refused(spec, "sums the columns of a rounded factor");
  spec = {.m = 2, .n = 3, .k = 4, .mask = true};
  refused(spec, "has a mask without relu");
}

}  // namespace meshwork::test::product_gradients_test

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "runtime/device/kernels/products.h"
#include "tests/runtime/device/products.h"

namespace meshwork::test::matmul_test {

namespace {

struct Product : Factors {
  std::vector<float> bias, before;
};

Product random_product(const MatmulSpec& s) {
  return {random_factors(s), random_values(s.n, 3), random_values(s.m * s.n, 4)};
}

/// All that the specification says of c.
std::vector<double> reference(const MatmulSpec& s, const Product& of) {
  std::vector<double> c = product_of(s, of);
  for (std::size_t i = 0; i < c.size(); ++i) {
    if (s.bias) c[i] += static_cast<double>(of.bias[i % static_cast<std::size_t>(s.n)]);
    if (s.accumulate) c[i] += static_cast<double>(of.before[i]);
    if (s.activation == Activation::relu && c[i] < 0) c[i] = 0;
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
  INFO(spec.text());
  check_close(c, reference(spec, of), relative_error(spec), absolute_error(spec));
  CHECK(a.values() == of.a);
  CHECK(b.values() == of.b);
}

}  // namespace

TEST_CASE("relu behind a product lets a NaN through") {
  for (const Precision precision : precisions()) {
    Array<> a{1, std::numeric_limits<float>::quiet_NaN(), -1, -2}, b{1, 1}, bias{0}, c(2);
    MatmulSpec spec{.m = 2, .n = 1, .k = 2, .activation = Activation::relu, .precision = precision};
    run(spec, a, b, c);
    CHECK(std::isnan(c[0]));
    spec.bias = true;
    run(spec, a, b, bias, c);
    CHECK(std::isnan(c[0]));
    CHECK(c[1] == 0);
  }
}

TEST_CASE("a product is right for every form and odd sizes, none and one included") {
  for (const std::int64_t m : {0, 1, 5, 33}) {
    for (const std::int64_t n : {0, 1, 7, 18}) {
      for (const std::int64_t k : {0, 1, 3, 65}) {
        for (const bool transpose_a : {false, true}) {
          for (const bool transpose_b : {false, true}) {
            for (const Precision precision : precisions()) {
              MatmulSpec spec{.m = m, .n = n, .k = k};
              spec.transpose_a = transpose_a;
              spec.transpose_b = transpose_b;
              spec.precision = precision;
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
}

TEST_CASE("the products of a dense network are right") {
  check_product({.m = 64, .n = 256, .k = 784, .bias = true, .activation = Activation::relu});
  check_product({.m = 784, .n = 256, .k = 64, .transpose_a = true});
  check_product({.m = 64, .n = 256, .k = 10, .transpose_b = true});
}

TEST_CASE("a product in bfloat16 is right where one dimension is long") {
  if (precisions().size() == 1) return;
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      MatmulSpec spec{.m = 525, .n = 27, .k = 33, .precision = Precision::bfloat16};
      spec.transpose_a = transpose_a;
      spec.transpose_b = transpose_b;
      check_product(spec);
      spec.m = 11, spec.n = 813, spec.k = 70;
      check_product(spec);
      spec.m = 21, spec.n = 50, spec.k = 771, spec.bias = true, spec.activation = Activation::relu;
      check_product(spec);
      spec.bias = false, spec.activation = Activation::linear, spec.accumulate = true;
      check_product(spec);
    }
  }
}

TEST_CASE("a product of operands that are stored in bfloat16 is the product in bfloat16") {
  operands_are_aligned = true;
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const auto& [m, n, k] : {std::array{1, 1, 1}, {5, 18, 65}, {64, 256, 100}, {70, 3, 9}}) {
        MatmulSpec spec{.m = m, .n = n, .k = k, .precision = Precision::bfloat16, .narrow = true};
        spec.transpose_a = transpose_a;
        spec.transpose_b = transpose_b;
        const Product of = random_product(spec);
        Array<std::uint16_t> a = stored_in_bfloat16(of.a), b = stored_in_bfloat16(of.b);
        Array<> bias(of.bias), c(spec.m * spec.n);
        run(spec, a, b, c);
        const double allowed = absolute_error(spec);
        check_close(c, reference(spec, of), 1e-6, allowed);
        spec.bias = true, spec.activation = Activation::relu;
        run(spec, a, b, bias, c);
        check_close(c, reference(spec, of), 1e-6, allowed);
        spec.bias = false, spec.activation = Activation::linear, spec.accumulate = true;
        std::copy(of.before.begin(), of.before.end(), c.data());
        run(spec, a, b, c);
        check_close(c, reference(spec, of), 1e-6, allowed);
      }
    }
  }
  operands_are_aligned = false;
}

TEST_CASE("a product in bfloat16 whose result is larger than a cache is right, edges and all") {
  if (precisions().size() == 1) return;
  const MatmulSpec spec{.m = 1030, .n = 4112, .k = 3, .precision = Precision::bfloat16};
  check_product(spec);
}

TEST_CASE("a product in bfloat16 gives the same bits on any number of threads") {
  if (precisions().size() == 1) return;
  for (const auto& [m, n] : {std::pair{100, 300}, {2000, 20}, {3, 1000}}) {
    const MatmulSpec spec{.m = m, .n = n, .k = 300, .precision = Precision::bfloat16};
    const Product of = random_product(spec);
    Array<> a(of.a), b(of.b), one(spec.m * spec.n);
    run(spec, a, b, one);
    for (const int threads : {2, 3, 7}) {
      Array<> several(spec.m * spec.n);
      run_kernel(spec, {a.data(), b.data(), several.data()}, threads);
      CHECK(several.intact());
      CHECK(several.values() == one.values());
    }
  }
}

TEST_CASE("rounding to bfloat16 is to the nearest, ties to even, and keeps what is no number") {
  const auto rounded = [](float x) { return rounded_to_bfloat16(x); };
  const float ulp = 0x1p-7f;  // of numbers from 1 to 2
  CHECK(rounded(1) == 1);
  CHECK(rounded(1 + ulp / 2) == 1);
  CHECK(rounded(1 + ulp * 3 / 2) == 1 + 2 * ulp);
  CHECK(rounded(1 + ulp * 0.501f) == 1 + ulp);
  CHECK(rounded(-1 - ulp * 0.499f) == -1);
  CHECK(rounded(0) == 0);
  CHECK(std::isinf(rounded(std::numeric_limits<float>::infinity())));
  CHECK(std::isinf(rounded(std::numeric_limits<float>::max())));
  CHECK(std::isnan(rounded(std::numeric_limits<float>::quiet_NaN())));
  CHECK(std::isnan(rounded(std::bit_cast<float>(0x7f800001U))));
}

TEST_CASE("without instructions for bfloat16 a product gives the same numbers") {
  if (precisions().size() == 1) return;
  for (const bool bias : {false, true}) {
    const MatmulSpec spec{.m = 33, .n = 50, .k = 271, .transpose_b = true, .bias = bias};
    const Product of = random_product(spec);
    Array<> a(of.a), b(of.b), with_bias(of.bias), c(spec.m * spec.n);
    const cpu::Context context = cpu_context(1);
    const cpu::KernelPointer kernel = cpu::with_rounded_inputs(
        cpu::compile(spec, context), bias ? 4 : 3, spec.m * spec.k, spec.k * spec.n, context);
    const Memory workspace = make_device({.kind = "cpu"})->allocate(kernel->workspace_bytes());
    std::vector<void*> operands{a.data(), b.data()};
    if (bias) operands.push_back(with_bias.data());
    operands.push_back(c.data());
    operands.push_back(workspace.data());
    kernel->run(operands.data());
    CHECK(c.intact());
    CHECK(a.values() == of.a);
    MatmulSpec rounded = spec;
    rounded.precision = Precision::bfloat16;
    check_close(c, reference(rounded, of), 1e-6, 1e-6 * std::sqrt(272.0));
  }
}

TEST_CASE("matrices may lie apart and be multiplied many times, by every candidate") {
  // (batch, steps, heads, e) by heads, all results in one array (batch, heads, rows, columns).
  constexpr std::int64_t batch = 2, heads = 3;
  for (const auto& [m, n, k] : {std::array{5, 7, 4}, {1, 3, 1}, {4, 0, 2}, {3, 2, 0}}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        for (const Precision precision : precisions()) {
          MatmulSpec spec{.m = m, .n = n, .k = k};
          spec.transpose_a = transpose_a;
          spec.transpose_b = transpose_b;
          spec.precision = precision;
          const std::int64_t a_columns = transpose_a ? m : k, b_columns = transpose_b ? k : n;
          spec.a_row = heads * a_columns, spec.b_row = heads * b_columns;
          // The second factor is the same for the whole batch.
          spec.repeats = {{batch, m * k * heads, 0, heads * m * n},
                          {heads, a_columns, b_columns, m * n}};
          INFO(spec.text() << spec.details());
          Factors of{random_values(batch * heads * m * k, 1), random_values(heads * k * n, 2)};
          std::vector<double> expected(static_cast<std::size_t>(batch * heads * m * n));
          for_each_product(spec, [&](std::int64_t a, std::int64_t b, std::int64_t c) {
            MatmulSpec one{.m = m, .n = n, .k = k};
            one.precision = precision;
            Factors packed;
            for (std::int64_t i = 0; i < m * k; ++i) {
              const std::int64_t row = i / k, term = i % k;
              packed.a.push_back(of.a[static_cast<std::size_t>(
                  a + (transpose_a ? term * spec.a_row + row : row * spec.a_row + term))]);
            }
            for (std::int64_t i = 0; i < k * n; ++i) {
              const std::int64_t term = i / n, column = i % n;
              packed.b.push_back(of.b[static_cast<std::size_t>(
                  b + (transpose_b ? column * spec.b_row + term : term * spec.b_row + column))]);
            }
            const std::vector<double> result = product_of(one, packed);
            std::copy(result.begin(), result.end(), expected.begin() + c);
          });
          Array<> a(of.a), b(of.b), c(batch * heads * m * n);
          run(spec, a, b, c);
          check_close(c, expected, relative_error(spec), absolute_error(spec));
          if (kernel_device().traits().kind != "cpu") continue;
          for (const KernelCandidate& candidate : kernel_device().candidates(spec)) {
            INFO(candidate.name);
            const auto kernel = candidate.compile();
            const Memory workspace = kernel_device().allocate(kernel->workspace_bytes());
            Array<> other(batch * heads * m * n);
            kernel->run(
                std::array<void*, 4>{a.data(), b.data(), other.data(), workspace.data()}.data());
            check_close(other, expected, relative_error(spec), absolute_error(spec));
          }
        }
      }
    }
  }
}

TEST_CASE("records tell products by how their matrices lie") {
  const MatmulSpec plain{.m = 5, .n = 7, .k = 4};
  CHECK(KernelSpec(plain).key() == "matmul 5x7x4");
  MatmulSpec apart = plain;
  apart.a_row = 8;
  MatmulSpec twice = plain;
  twice.repeats = {{2, 20, 28, 35}};
  CHECK(KernelSpec(apart).key() != KernelSpec(plain).key());
  CHECK(KernelSpec(twice).key() != KernelSpec(plain).key());
  CHECK(twice.text() == "matmul 5x7x4 2 times");
  CHECK(twice.work().flops == 2 * plain.work().flops);
  CHECK(twice.work().bytes == 2 * plain.work().bytes);
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
    for (const Precision precision : precisions()) {
      MatmulSpec spec{.m = 61, .n = 35, .k = 127, .transpose_a = transpose_a};
      spec.precision = precision;
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
}

TEST_CASE("a product that cannot be is refused with its description") {
  CHECK_THROWS_WITH(
      run_kernel(MatmulSpec{.m = 2, .n = 3, .k = 4, .activation = Activation::tanh}, {}),
      Catch::Contains("matmul 2x3x4") && Catch::Contains("tanh"));
  CHECK_THROWS_WITH(
      run_kernel(MatmulSpec{.m = 2, .n = 3, .k = 4, .accumulate = true, .bias = true}, {}),
      Catch::Contains("accumulates and has a bias"));
  CHECK_THROWS_WITH(run_kernel(MatmulSpec{.m = 2, .n = 3, .k = 4, .narrow = true}, {}),
                    Catch::Contains("is not in bfloat16"));
  MatmulSpec twice{.m = 2, .n = 3, .k = 4, .bias = true};
  twice.repeats = {{2, 8, 12, 6}};
  CHECK_THROWS_WITH(run_kernel(twice, {}), Catch::Contains("matrices that are not packed"));
  if (kernel_device().traits().kind != "cpu") return;
  CHECK_THROWS_WITH(
      kernel_device().compile(MatmulSpec{.m = 2, .n = 3, .k = 4, .precision = Precision::tf32}),
      Catch::Contains("tf32 exists on NVIDIA GPUs only") && Catch::Contains("bfloat16"));
}

}  // namespace meshwork::test::matmul_test

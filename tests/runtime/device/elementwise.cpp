#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "runtime/device/kernels/copies.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/norms.h"
#include "runtime/device/kernels/products.h"
#include "runtime/device/narrowing.h"
#include "tests/runtime/device/support.h"
#include "tests/support/activation_formulas.h"

namespace meshwork::test::elementwise_test {

namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

const std::vector<Activation> elementwise = elementwise_activations();

// Of these a zero is a difference of numbers near 1.
bool shifts(Activation activation) {
  return activation == Activation::tanh_shrink || activation == Activation::hard_sigmoid ||
         activation == Activation::hard_silu || activation == Activation::sparse_sigmoid ||
         activation == Activation::soft_shrink || activation == Activation::sparse_plus;
}

}  // namespace

TEST_CASE("activations are those of their formulas") {
  for (const Activation activation : elementwise) {
    INFO(name_of(activation));
    for (const std::int64_t count : odd_sizes) {
      const std::vector<float> values = random_values(count, 1, -6, 6);
      Array<> x(values), y(count);
      run(ActivationSpec{activation, count}, x, y);
      std::vector<double> expected;
      for (const float value : values) expected.push_back(activation_formula(activation, value));
      // The tail of gelu magnifies the rounding of x; where x is taken off or added to, near a zero,
      // what stays is that rounding itself.
      check_close(y, expected, 4e-6, shifts(activation) ? 1.5e-7 : 0);
      run_kernel(ActivationSpec{activation, count}, {x.data(), x.data()});
      CHECK(x.values() == y.values());
    }
  }
}

TEST_CASE("an activation that says so keeps order, however its values are rounded") {
  std::vector<float> values = random_values(100000, 1, -8, 8);
  std::sort(values.begin(), values.end());
  // Neighbours among numbers of float32, of which a rounding may exchange two.
  for (float x = -1.5f; x < 1.5f; x += 0.37f) {
    for (int i = 0; i < 1000; ++i) values.push_back(x = std::nextafter(x, 2.0f));
  }
  std::sort(values.begin(), values.end());
  int that_keep = 0;
  for (const Activation activation : elementwise) {
    if (!keeps_order(activation)) continue;
    ++that_keep;
    INFO(name_of(activation));
    const auto count = static_cast<std::int64_t>(values.size());
    Array<> x(values), y(count);
    run(ActivationSpec{activation, count}, x, y);
    CHECK(std::is_sorted(y.data(), y.data() + count));
  }
  CHECK(that_keep == 4);
  CHECK_FALSE(keeps_order(Activation::softmax));
}

TEST_CASE("activations let a NaN through") {
  for (const Activation activation : elementwise) {
    Array<> x(std::vector<float>(20, nan)), y(20);
    run(ActivationSpec{activation, 20}, x, y);
    for (std::size_t i = 0; i < 20; ++i) CHECK(std::isnan(y[i]));
  }
}

TEST_CASE("a rectifier keeps NaN, and infinities on their sides") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const Rectifier& rectifier :
       {Rectifier{}, Rectifier{.limit = 6}, Rectifier{.slope = 0.5f, .threshold = 1, .limit = 6}}) {
    Array<> x(std::vector<float>{nan, -infinity, infinity, 1, 3, 7}), y(6);
    run(RectifySpec{rectifier, 6}, x, y);
    CHECK(std::isnan(y[0]));
    CHECK(y[1] == (rectifier.slope > 0 ? -infinity : 0));
    CHECK(y[2] == rectifier.limit);
    CHECK(y[3] == (rectifier.threshold < 1 ? 1.0f : 0.0f));
    CHECK(y[4] == 3);
    CHECK(y[5] == std::min(7.0f, rectifier.limit));
  }
}

TEST_CASE(
    "the gradient of a rectifier passes between threshold and limit, and by its slope below") {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  const Rectifier rectifier{.slope = 0.5f, .threshold = 1, .limit = 6};
  Array<> x{-2, 1, 1.5f, 6, 7}, dy{2, 4, 6, 8, nan}, dx(5);
  run(RectifyGradientSpec{rectifier, 5}, x, dy, dx);
  CHECK(dx.values() == std::vector<float>{1, 2, 6, 0, 0});
}

TEST_CASE("gradients of activations are the slopes of their formulas") {
  for (const Activation activation : elementwise) {
    INFO(name_of(activation));
    for (const std::int64_t count : odd_sizes) {
      const std::vector<float> x = random_values(count, 2, -5, 5), dy = random_values(count, 3);
      std::vector<float> value = x;
      std::vector<double> expected;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const auto f = [&](double at) { return activation_formula(activation, at); };
        if (differentiable_from_output(activation)) value[i] = static_cast<float>(f(x[i]));
        expected.push_back(static_cast<double>(dy[i]) * slope(f, x[i]));
      }
      Array<> values(value), dys(dy), dx(count);
      run(ActivationGradientSpec{activation, count}, values, dys, dx);
      // 1 - y^2 loses what y was rounded by: half a unit of 1.
      check_close(dx, expected, 1e-5, 2e-7);
      run_kernel(ActivationGradientSpec{activation, count},
                 {values.data(), dys.data(), dys.data()});
      CHECK(dys.values() == dx.values());
    }
  }
}

TEST_CASE("a gradient that is divided first is that of the quotient") {
  for (const Activation activation : elementwise) {
    const std::vector<float> value = random_values(65, 2, -1, 1);
    std::vector<float> dy = random_values(65, 3), quotient = dy;
    for (float& each : quotient) each /= 0.6f;
    Array<> values(value), dys(dy), quotients(quotient), dx(65), expected(65);
    run(ActivationGradientSpec{activation, 65, 0.6f}, values, dys, dx);
    run(ActivationGradientSpec{activation, 65}, values, quotients, expected);
    check_close(dx, std::vector<double>(expected.data(), expected.data() + 65), 1e-6);
  }
  CHECK_THROWS_WITH(run_kernel(ActivationGradientSpec{Activation::relu, 3, 0}, {}),
                    Catch::Contains("divided by 0"));
}

TEST_CASE("what is converted can be scaled and shifted on the way, to the same bits") {
  Array<std::uint8_t> bytes{0, 1, 7, 128, 254, 255};
  Array<> plain(6), expected(6), found(6);
  for (const float offset : {0.0f, -0.37f}) {
    constexpr float scale = 1.0f / 255;
    run(ConvertSpec{6, ElementType::uint8}, bytes, plain);
    run(AffineSpec{6, scale, offset}, plain, expected);
    run(ConvertSpec{6, ElementType::uint8, scale, offset}, bytes, found);
    CHECK(found.values() == expected.values());
  }
}

TEST_CASE("softmax is refused where a function is elementwise") {
  CHECK_THROWS_WITH(run_kernel(ActivationSpec{Activation::softmax, 3}, {}),
                    Catch::Contains("softmax is not elementwise"));
  CHECK_THROWS_WITH(run_kernel(ActivationGradientSpec{Activation::softmax, 3}, {}),
                    Catch::Contains("softmax is not elementwise"));
  CHECK_THROWS_WITH(run_kernel(BiasAddSpec{1, 1, Activation::softmax}, {}),
                    Catch::Contains("softmax is not elementwise"));
}

TEST_CASE("a bias is added to every row and the sum activated") {
  for (const Activation activation : elementwise) {
    for (const std::int64_t rows : {0, 1, 3}) {
      for (const std::int64_t columns : odd_sizes) {
        const std::vector<float> values = random_values(rows * columns, 4, -3, 3);
        const std::vector<float> biases = random_values(columns, 5);
        Array<> x(values), bias(biases), y(rows * columns);
        run(BiasAddSpec{rows, columns, activation}, x, bias, y);
        std::vector<double> expected;
        for (std::size_t i = 0; i < values.size(); ++i) {
          const float sum = values[i] + biases[i % static_cast<std::size_t>(columns)];
          expected.push_back(activation_formula(activation, sum));
        }
        check_close(y, expected, 4e-6, shifts(activation) ? 1.5e-7 : 0);
        run_kernel(BiasAddSpec{rows, columns, activation}, {x.data(), bias.data(), x.data()});
        CHECK(x.values() == y.values());
      }
    }
  }
}

TEST_CASE("an affine map scales and shifts") {
  for (const std::int64_t count : odd_sizes) {
    const std::vector<float> values = random_values(count, 6, 0, 255);
    Array<> x(values), y(count);
    run(AffineSpec{count, 1.0f / 255, -0.5f}, x, y);
    std::vector<double> expected;
    for (const float value : values)
      expected.push_back(value * static_cast<double>(1.0f / 255) - 0.5);
    check_close(y, expected, 1e-6, 6e-8);
  }
}

TEST_CASE("conversion to float32 rounds to the nearest") {
  Array<std::uint8_t> bytes{0, 1, 127, 128, 255};
  Array<> y(5);
  run(ConvertSpec{5, ElementType::uint8}, bytes, y);
  CHECK(y.values() == std::vector<float>{0, 1, 127, 128, 255});
  Array<std::int32_t> words{-2147483647 - 1, -1, 0, 16777217, 2147483647};
  run(ConvertSpec{5, ElementType::int32}, words, y);
  CHECK(y.values() == std::vector<float>{-2147483648.0f, -1, 0, 16777216, 2147483648.0f});
  Array<std::int64_t> longs{-5, 0, 7, std::int64_t{1} << 40, 16777219};
  run(ConvertSpec{5, ElementType::int64}, longs, y);
  CHECK(y.values() == std::vector<float>{-5, 0, 7, 1099511627776.0f, 16777220});
  Array<double> wide{0.1, -1e30, 3.0, 0.0, 1e300};
  run(ConvertSpec{5, ElementType::float64}, wide, y);
  CHECK(y.values() ==
        std::vector<float>{0.1f, -1e30f, 3, 0, std::numeric_limits<float>::infinity()});
  Array<> same{1.5f, -2, 0, 4, 5};
  run(ConvertSpec{5, ElementType::float32}, same, y);
  CHECK(y.values() == same.values());
  Array<std::uint8_t> none(0);
  Array<> nothing(0);
  run(ConvertSpec{0, ElementType::uint8}, none, nothing);
}

TEST_CASE("conversion to int32 cuts towards 0, and has one number for what int32 has not") {
  constexpr std::int32_t lowest = std::numeric_limits<std::int32_t>::min();
  const auto convert = [](ElementType from, auto& numbers) {
    Array<std::int32_t> y(5);
    run(ConvertSpec{.count = 5, .from = from, .to = ElementType::int32}, numbers, y);
    return y.values();
  };
  Array<std::uint8_t> bytes{0, 1, 127, 128, 255};
  CHECK(convert(ElementType::uint8, bytes) == std::vector<std::int32_t>{0, 1, 127, 128, 255});
  Array<std::int64_t> longs{-5, 16777217, 2147483647, 2147483648, -2147483649};
  CHECK(convert(ElementType::int64, longs) ==
        std::vector<std::int32_t>{-5, 16777217, 2147483647, lowest, lowest});
  Array<> floats{2.9f, -2.9f, 2147483648.0f, std::numeric_limits<float>::quiet_NaN(), -0.5f};
  CHECK(convert(ElementType::float32, floats) ==
        std::vector<std::int32_t>{2, -2, lowest, lowest, 0});
  Array<double> wide{2147483647.0, 2147483648.0, -2147483648.0, 1e300, 7.0};
  CHECK(convert(ElementType::float64, wide) ==
        std::vector<std::int32_t>{2147483647, lowest, lowest, lowest, 7});
}

TEST_CASE("conversion to int32 neither scales nor shifts") {
  const ConvertSpec scaled{
      .count = 1, .from = ElementType::uint8, .scale = 2, .to = ElementType::int32};
  CHECK_THROWS_WITH(run_kernel(scaled, {}), Catch::Contains("unscaled"));
  const ConvertSpec to_bytes{.count = 1, .from = ElementType::int64, .to = ElementType::uint8};
  CHECK_THROWS_WITH(run_kernel(to_bytes, {}), Catch::Contains("neither to float32"));
}

TEST_CASE("narrowing rounds to the nearest bfloat16, ties to even, and keeps what is no number") {
  constexpr float ulp = 0x1p-7f;  // of numbers from 1 to 2
  constexpr float infinity = std::numeric_limits<float>::infinity();
  Array<> x{1,
            1 + ulp / 2,
            1 + ulp * 3 / 2,
            1 + ulp * 0.501f,
            -1 - ulp * 0.499f,
            0,
            std::numeric_limits<float>::max(),
            -infinity,
            std::numeric_limits<float>::quiet_NaN(),
            std::bit_cast<float>(0x7f800001U),
            std::bit_cast<float>(0xffffffffU)};
  const auto count = static_cast<std::int64_t>(x.size());
  Array<std::uint16_t> y(count);
  run(NarrowSpec{count}, x, y);
  std::vector<float> found;
  for (const std::uint16_t bits : y.values()) found.push_back(widened(bits));
  CHECK(std::vector<float>(found.begin(), found.begin() + 8) ==
        std::vector<float>{1, 1, 1 + 2 * ulp, 1 + ulp, -1, 0, infinity, -infinity});
  for (std::size_t i = 8; i < found.size(); ++i) CHECK(std::isnan(found[i]));

  const std::vector<float> values = random_values(5003, 3, -1e3, 1e3);
  Array<> many(values);
  Array<std::uint16_t> narrow(5003);
  run(NarrowSpec{5003}, many, narrow);
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) wrong += narrow[i] != narrowed(values[i]) ? 1 : 0;
  CHECK(wrong == 0);
  run(NarrowSpec{0}, many, narrow);
}

template <class T>
void check_gathered(ElementType type) {
  constexpr std::int64_t table_rows = 9, columns = 37;
  std::vector<T> table;
  for (std::int64_t i = 0; i < table_rows * columns; ++i) table.push_back(static_cast<T>(i % 251));
  Device& device = kernel_device();
  const auto bytes = static_cast<std::int64_t>(table.size() * sizeof(T));
  const Memory on_device = device.allocate(bytes);
  device.copy_in(on_device.data(), table.data(), bytes);
  Array<std::int64_t> address{
      static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(on_device.data()))};
  Array<std::int64_t> rows{8, 0, 3, 3, 7};
  Array<> y(5 * columns);
  run(GatherSpec{5, columns, type}, address, rows, y);
  std::vector<float> expected;
  for (const std::int64_t row : rows.values()) {
    for (std::int64_t j = 0; j < columns; ++j) {
      expected.push_back(static_cast<float>(table[static_cast<std::size_t>(row * columns + j)]));
    }
  }
  CHECK(y.values() == expected);
  Array<std::int32_t> whole(5 * columns);
  run(GatherSpec{.rows = 5, .columns = columns, .from = type, .to = ElementType::int32}, address,
      rows, whole);
  CHECK(whole.values() == std::vector<std::int32_t>(expected.begin(), expected.end()));
  Array<> none(0);
  run(GatherSpec{0, columns, type}, address, rows, none);
  run(GatherSpec{5, 0, type}, address, rows, none);
}

TEST_CASE("gathering takes rows of a table wherever it lies, in any order, and converts them") {
  check_gathered<std::uint8_t>(ElementType::uint8);
  check_gathered<std::int32_t>(ElementType::int32);
  check_gathered<std::int64_t>(ElementType::int64);
  check_gathered<float>(ElementType::float32);
  check_gathered<double>(ElementType::float64);
}

TEST_CASE("a sum adds its tensors in order, also onto the first") {
  for (const std::int64_t count : {0, 1, 63, 2047, 2049, 5000}) {
    const std::vector<float> a = random_values(count, 7), b = random_values(count, 8),
                             c = random_values(count, 9);
    Array<> x0(a), x1(b), x2(c), y(count);
    run(SumSpec{count, 3}, x0, x1, x2, y);
    std::vector<float> expected;
    for (std::size_t i = 0; i < a.size(); ++i) expected.push_back((a[i] + b[i]) + c[i]);
    CHECK(y.values() == expected);
    run_kernel(SumSpec{count, 3}, {x0.data(), x1.data(), x2.data(), x0.data()});
    CHECK(x0.values() == expected);
    run(SumSpec{count, 1}, x1, y);
    CHECK(y.values() == b);
  }
}

TEST_CASE("scaling multiplies by a factor in memory") {
  for (const std::int64_t count : odd_sizes) {
    const std::vector<float> values = random_values(count, 10);
    Array<> factor{0.25f}, x(values);
    run(ScaleBySpec{count}, factor, x);
    std::vector<float> expected;
    for (const float value : values) expected.push_back(value / 4);
    CHECK(x.values() == expected);
  }
}

TEST_CASE("clamping limits both sides and lets a NaN through") {
  Array<> x{-3, -0.5f, 0, 0.25f, 0.5f, 7, nan};
  run(ClampSpec{7, 0.5f}, x);
  const std::vector<float> expected{-0.5f, -0.5f, 0, 0.25f, 0.5f, 0.5f};
  CHECK(std::equal(expected.begin(), expected.end(), x.data()));
  CHECK(std::isnan(x[6]));
}

TEST_CASE("the gradient of a penalty is l1 sign(w) + 2 l2 w") {
  Array<> w{-2, 0, 3}, dw{1, 1, 1};
  run(PenaltyGradientSpec{3, 0.5f, 0.25f}, w, dw);
  // 1 - 0.5 - 2 * 0.25 * 2, 1, 1 + 0.5 + 2 * 0.25 * 3
  CHECK(dw.values() == std::vector<float>{-0.5f, 1, 3});
}

TEST_CASE("elementwise results do not depend on the number of threads") {
  const std::int64_t count = 300001;
  const std::vector<float> values = random_values(count, 11, -4, 4);
  for (const Activation activation : elementwise) {
    Array<> x(values), alone(count), shared(count);
    run_kernel(ActivationSpec{activation, count}, {x.data(), alone.data()}, 1);
    run_kernel(ActivationSpec{activation, count}, {x.data(), shared.data()}, 3);
    CHECK(alone.values() == shared.values());
    CHECK(shared.intact());
  }
}

TEST_CASE("an element's result does not depend on its place") {
  // The last elements of a loop are computed one by one, the others in vectors.
  const std::vector<float> values = random_values(101, 12, -4, 4);
  for (const Activation activation : elementwise) {
    Array<> x(values), whole(101);
    run(ActivationSpec{activation, 101}, x, whole);
    for (std::int64_t from = 0; from < 101; from += 3) {
      const std::int64_t count = std::min<std::int64_t>(3, 101 - from);
      Array<> part(count);
      run_kernel(ActivationSpec{activation, count}, {x.data() + from, part.data()});
      CHECK(std::equal(part.data(), part.data() + count, whole.data() + from));
    }
  }
}

}  // namespace meshwork::test::elementwise_test

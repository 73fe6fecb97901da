// Initial values: worked values, Keras's formulas, statistics, and blocks against the whole.
//
// The worked values were computed apart from this program, with a Philox4x32-10 written from the
// paper (its known answer for key and counter 0 is 6627e8d5 e169c58d bc57ac4c 9b00dbd8) and the
// inverse of the normal distribution of Python's `statistics.NormalDist`.
#include "runtime/graph/initializer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "collectives/error.h"
#include "layers/initializers/constant.h"
#include "layers/initializers/identity_initializer.h"
#include "layers/initializers/ones.h"
#include "layers/initializers/orthogonal.h"
#include "layers/initializers/random_normal.h"
#include "layers/initializers/random_uniform.h"
#include "layers/initializers/truncated_normal.h"
#include "layers/initializers/variance_scaling.h"
#include "layers/initializers/zeros.h"
#include "layers/pages.h"
#include "runtime/config/catalog.h"
#include "runtime/config/load.h"
#include "runtime/device/philox.h"
#include "runtime/graph/layer_config.h"
#include "tests/support/catch.h"

namespace meshwork::initializer_test {

namespace {

std::vector<float> values_of(const Initializer& initializer, const Shape& shape,
                             std::uint64_t key = 0) {
  std::vector<float> values(element_count(shape), -77);
  initialize(initializer, shape, whole(shape), key, values);
  return values;
}

Initializer by_name(const std::string& name) {
  Catalog catalog;
  add_layers(catalog);
  return catalog.make<Initializer>(parse_config(name, "test.yaml"));
}

// A value for each index: slow at first, then the faster.
Initializer ramp(double height) {
  return {.name = "ramp", .values = [height](const InitializedVariable& of) -> ElementValue {
            return [height, count = static_cast<double>(element_count(of.shape)),
                    numbers = RandomNumbers(of.key, 3)](std::int64_t index) mutable {
              const double share = static_cast<double>(index) / count;
              return height * share * share + numbers.uniform(index);
            };
          }};
}

struct Statistics {
  double mean = 0, deviation = 0, minimum = 0, maximum = 0;
};

Statistics statistics_of(const std::vector<float>& values) {
  Statistics result;
  for (const float value : values) {
    result.mean += value;
  }
  result.mean /= static_cast<double>(values.size());
  for (const float value : values) {
    result.deviation += (value - result.mean) * (value - result.mean);
  }
  result.deviation = std::sqrt(result.deviation / static_cast<double>(values.size()));
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  result.minimum = *low;
  result.maximum = *high;
  return result;
}

// The limit of a uniform, or the standard deviation of a normal initializer, as 100,000 values show
// it. Means and deviations of so many are within 1 % of the true ones, maxima within 0.01 %.
double scale_of(const std::string& name, const Shape& shape) {
  const Statistics found = statistics_of(values_of(by_name(name), shape, 99));
  if (name.ends_with("uniform")) {
    CHECK(found.minimum == Approx(-found.maximum).epsilon(1e-3));
    CHECK(found.deviation == Approx(found.maximum / std::sqrt(3.0)).epsilon(0.01));
    return found.maximum;
  }
  CHECK(std::abs(found.mean) < 0.02 * found.deviation);
  // Cut off at two deviations of the normal distribution before the cut.
  CHECK(found.maximum < 2 * found.deviation / 0.8796);
  CHECK(found.maximum > 1.95 * found.deviation / 0.8796);
  return found.deviation;
}

}  // namespace

TEST_CASE("values are those worked out from Philox's words") {
  const std::vector<double> unit{0.3990464708489646, 0.7357127844834425,   0.9722412015223157,
                                 0.6939309190579442, 0.019449422443156617, 0.14094660740153564};
  const std::vector<double> normal{-0.2558159702035155, 0.6301836564311267,  1.9148032727702817,
                                   0.5070237393399029,  -2.0652553603794996, -1.0760761194297097};
  const std::vector<double> truncated{-0.24393680193488249, 0.5977235353648124,
                                      1.652209769641824,    0.48202810959451864,
                                      -1.7356304342539126,  -1.0056847048029847};
  const auto uniform = values_of(RandomUniform(), {2, 3});
  const auto normals = values_of(RandomNormal({.mean = 1, .stddev = 2}), {6});
  const auto cut = values_of(TruncatedNormal({.mean = 1, .stddev = 2}), {3, 2});
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(uniform[i] == static_cast<float>(-0.05 + 0.1 * unit[i]));
    CHECK(normals[i] == Approx(1 + 2 * normal[i]).epsilon(1e-7));
    CHECK(cut[i] == Approx(1 + 2 * truncated[i]).epsilon(1e-7));
  }
  CHECK(values_of(RandomUniform({.minval = 0, .maxval = 1}), {1}, 12345678901234567)[0] ==
        static_cast<float>(0.6055861467514873));
}

TEST_CASE("normal values follow the normal distribution into its tails") {
  // Sorted, value i of n is near the quantile (i + 1/2) / n: the distribution function, from erfc,
  // of each must be that fraction, within four deviations of an empirical one.
  const std::size_t count = 200000;
  std::vector<float> values = values_of(RandomNormal({.mean = 0, .stddev = 1}), {200000}, 3);
  std::sort(values.begin(), values.end());
  double worst = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double p = 0.5 * std::erfc(-values[i] / std::sqrt(2.0));
    worst = std::max(worst, std::abs(p - (static_cast<double>(i) + 0.5) / count));
  }
  CHECK(worst < 4 * 0.5 / std::sqrt(static_cast<double>(count)));
  CHECK(values.front() < -4);  // 6 of 200,000 are expected beyond 4 on each side
  CHECK(values.back() > 4);
  CHECK(values.front() > -6);
}

TEST_CASE("Keras's names have Keras's scales, with fans of the whole shape") {
  const Shape shape{200, 500};
  CHECK(scale_of("glorot_uniform", shape) == Approx(std::sqrt(6.0 / 700)).epsilon(1e-4));
  CHECK(scale_of("he_uniform", shape) == Approx(std::sqrt(6.0 / 200)).epsilon(1e-4));
  CHECK(scale_of("lecun_uniform", shape) == Approx(std::sqrt(3.0 / 200)).epsilon(1e-4));
  CHECK(scale_of("glorot_normal", shape) == Approx(std::sqrt(2.0 / 700)).epsilon(0.01));
  CHECK(scale_of("he_normal", shape) == Approx(std::sqrt(2.0 / 200)).epsilon(0.01));
  CHECK(scale_of("lecun_normal", shape) == Approx(std::sqrt(1.0 / 200)).epsilon(0.01));
  CHECK(scale_of("random_uniform", shape) == Approx(0.05).epsilon(1e-4));
  CHECK(scale_of("truncated_normal", shape) == Approx(0.05 * 0.87962566).epsilon(0.01));
  CHECK(scale_of("variance_scaling", shape) == Approx(std::sqrt(1.0 / 200)).epsilon(0.01));
  const Statistics normal = statistics_of(values_of(by_name("random_normal"), shape));
  CHECK(normal.deviation == Approx(0.05).epsilon(0.01));
  CHECK(normal.maximum > 0.15);
}

TEST_CASE("fans of convolutions count the field, those of vectors their length") {
  CHECK(scale_of("he_uniform", {3, 3, 20, 500}) == Approx(std::sqrt(6.0 / 180)).epsilon(1e-4));
  CHECK(scale_of("glorot_uniform", {3, 3, 20, 500}) ==
        Approx(std::sqrt(6.0 / (180 + 4500))).epsilon(1e-4));
  CHECK(scale_of("lecun_uniform", {5, 100, 200}) == Approx(std::sqrt(3.0 / 500)).epsilon(1e-4));
  CHECK(scale_of("glorot_uniform", {100000}) == Approx(std::sqrt(3.0 / 100000)).epsilon(1e-4));
  VarianceScalingOptions out{
      .scale = 3, .mode = FanMode::out, .distribution = ScalingDistribution::uniform};
  CHECK(statistics_of(values_of(VarianceScaling(out), {200, 500})).maximum ==
        Approx(std::sqrt(9.0 / 500)).epsilon(1e-4));
  out.distribution = ScalingDistribution::normal;
  const Statistics normal = statistics_of(values_of(VarianceScaling(out), {200, 500}));
  CHECK(normal.deviation == Approx(std::sqrt(3.0 / 500)).epsilon(0.01));
  CHECK(normal.maximum > 3 * normal.deviation);  // not cut off
}

TEST_CASE("constant initializers are constant") {
  CHECK(values_of(Zeros(), {2, 2}) == std::vector<float>(4, 0));
  CHECK(values_of(Ones(), {2, 2}) == std::vector<float>(4, 1));
  CHECK(values_of(Constant({.value = 0.3}), {3}) == std::vector<float>(3, 0.3f));
  CHECK(values_of(Zeros(), {}) == std::vector<float>{0});
  CHECK(values_of(by_name("random_uniform"), {}).size() == 1);
  CHECK(values_of(by_name("random_uniform"), {0, 3}).empty());
}

TEST_CASE("an identity has its gain on the diagonal") {
  CHECK(values_of(IdentityInitializer({.gain = 2}), {2, 3}) ==
        std::vector<float>{2, 0, 0, 0, 2, 0});
  CHECK_THROWS_WITH(values_of(by_name("identity"), {3}),
                    Catch::Contains("expected two dimensions"));
}

TEST_CASE("the columns of an orthogonal variable are orthogonal, or its rows if it is wide") {
  for (const Shape& shape : {Shape{7, 4}, Shape{4, 7}, Shape{5, 5}, Shape{3, 2, 4}, Shape{1, 3}}) {
    const std::vector<float> values = values_of(Orthogonal({.gain = 3}), shape, 11);
    const std::int64_t columns = shape.back(), rows = element_count(shape) / columns;
    const bool high = rows >= columns;
    const auto at = [&](std::int64_t i, std::int64_t j) {  // element i of vector j
      return static_cast<double>(values[high ? i * columns + j : j * columns + i]);
    };
    for (std::int64_t a = 0; a < std::min(rows, columns); ++a) {
      for (std::int64_t b = 0; b <= a; ++b) {
        double product = 0;
        for (std::int64_t i = 0; i < std::max(rows, columns); ++i) product += at(i, a) * at(i, b);
        CHECK(product == Approx(a == b ? 9 : 0).margin(1e-5));
      }
    }
  }
  // Of one column: a vector of normal values by its length.
  const std::vector<float> unit = values_of(by_name("orthogonal"), {3, 1}, 5);
  const std::vector<float> normal = values_of(RandomNormal(), {3, 1}, 5);
  const double length = std::hypot(double{normal[0]}, double{normal[1]}, double{normal[2]});
  for (std::size_t i = 0; i < 3; ++i) CHECK(unit[i] == Approx(normal[i] / length));
  CHECK_THROWS_WITH(values_of(by_name("orthogonal"), {3}),
                    Catch::Contains("at least two dimensions"));
}

TEST_CASE("a block holds the same bits as its part of the whole") {
  const Shape shape{5, 3, 7};
  for (const char* name : {"glorot_uniform", "he_normal", "random_normal", "ones", "orthogonal"}) {
    const Initializer initializer = by_name(name);
    const std::vector<float> all = values_of(initializer, shape, 17);
    for (const std::int64_t parts : {1, 2, 3, 6}) {
      for (std::int64_t i = 0; i < parts; ++i) {
        for (std::int64_t j = 0; j < parts; ++j) {
          const Block block{block_range(5, parts, i), block_range(3, parts, j),
                            block_range(7, parts, (i + j) % parts)};
          const Shape local = shape_of(block);
          std::vector<float> values(element_count(local));
          initialize(initializer, shape, block, 17, values);
          std::size_t next = 0;
          for (std::int64_t a = block[0].begin; a < block[0].end; ++a) {
            for (std::int64_t b = block[1].begin; b < block[1].end; ++b) {
              for (std::int64_t c = block[2].begin; c < block[2].end; ++c) {
                REQUIRE(values[next++] == all[(a * 3 + b) * 7 + c]);
              }
            }
          }
          REQUIRE(next == values.size());
        }
      }
    }
  }
}

TEST_CASE("another seed or another path gives other values, the same ones the same") {
  const Initializer initializer = by_name("glorot_uniform");
  const auto values = [&](std::uint64_t seed, const std::string& path) {
    return values_of(initializer, {4, 4}, random_key(seed, path));
  };
  CHECK(values(1, "d1/kernel") == values(1, "d1/kernel"));
  CHECK(values(1, "d1/kernel") != values(2, "d1/kernel"));
  CHECK(values(1, "d1/kernel") != values(1, "d2/kernel"));
}

TEST_CASE("an initializer of one's own gives a block the bits of the whole") {
  const Shape shape{4, 6};
  const Initializer own = ramp(100);
  const std::vector<float> all = values_of(own, shape, 9);
  CHECK(all[23] == Approx(100 * 23.0 * 23 / 576).margin(1));
  CHECK(all != values_of(own, shape, 10));
  for (std::int64_t row = 0; row < 4; ++row) {
    for (std::int64_t column = 0; column < 6; ++column) {
      float value = -77;
      initialize(own, shape, {{row, row + 1}, {column, column + 1}}, 9, std::span(&value, 1));
      CHECK(value == all[static_cast<std::size_t>(row * 6 + column)]);
    }
  }
}

TEST_CASE("streams of one key are unrelated, and numbers do not depend on what was asked before") {
  RandomNumbers first(7), again(7), second(7, 1);
  (void)again.uniform(100);
  for (std::int64_t i = 0; i < 6; ++i) {
    CHECK(first.uniform(i) == again.uniform(i));
    CHECK(first.uniform(i) != second.uniform(i));
  }
}

TEST_CASE("an initializer of one's own that gives no numbers, or others each time, is named") {
  Initializer own = ramp(std::numeric_limits<double>::infinity());
  CHECK_THROWS_WITH(values_of(own, {3}),
                    Catch::Contains("the initializer \"ramp\" gives element 0 the value"));
  own.values = [](const InitializedVariable&) { return ElementValue(); };
  CHECK_THROWS_WITH(values_of(own, {3}), "the initializer \"ramp\" gives no values");
  own.values = [](const InitializedVariable&) -> ElementValue {
    return [calls = 0](std::int64_t) mutable { return static_cast<double>(calls++); };
  };
  CHECK_THROWS_WITH(values_of(own, {3}),
                    Catch::Contains("gives element 0 the value 0, and 3 when asked again"));
  own.values = [](const InitializedVariable&) -> ElementValue {
    return [calls = 0](std::int64_t index) mutable {
      return static_cast<double>(index == 0 ? 0 : calls++);
    };
  };
  CHECK_THROWS_WITH(values_of(own, {3}),
                    Catch::Contains("gives element 2 the value 1, and 2 when asked again"));
  own.values = [](const InitializedVariable&) -> ElementValue {
    return [](std::int64_t) -> double { throw std::runtime_error("it rains"); };
  };
  CHECK_THROWS_WITH(values_of(own, {3}), "the initializer \"ramp\": it rains");
  own.values = [](const InitializedVariable&) -> ElementValue { throw 7; };
  CHECK_THROWS_WITH(values_of(own, {3}),
                    "the initializer \"ramp\" throws something that says nothing");
  own.check = [](const Shape& shape) { fail("not for {}", to_string(shape)); };
  CHECK_THROWS_WITH(values_of(own, {3}), "not for (3)");
}

TEST_CASE("an initializer that does not exist is an error with the nearest name") {
  CHECK_THROWS_WITH(by_name("glorot_unifrom"),
                    Catch::Contains("unknown initializer \"glorot_unifrom\"; did you mean "
                                    "\"glorot_uniform\"?"));
}

}  // namespace meshwork::initializer_test

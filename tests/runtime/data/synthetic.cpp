#include "runtime/data/synthetic.h"

#include "tests/runtime/data/support.h"
#include "tests/support/catch.h"

#include <algorithm>
#include <cmath>

namespace meshwork::synthetic_test {

using namespace meshwork::test;

namespace {

struct Moments {
  double mean = 0, variance = 0, least = 1e300, largest = -1e300;
};

template <class T>
Moments moments(const std::vector<T>& values) {
  Moments result;
  const double count = static_cast<double>(values.size());
  for (const T value : values) {
    result.mean += static_cast<double>(value) / count;
    result.least = std::min(result.least, static_cast<double>(value));
    result.largest = std::max(result.largest, static_cast<double>(value));
  }
  for (const T value : values) {
    result.variance += std::pow(static_cast<double>(value) - result.mean, 2) / count;
  }
  return result;
}

std::vector<SyntheticField> mixed_fields() {
  return {{.name = "x", .shape = {5, 3}, .kind = SyntheticKind::normal},
          {.name = "noise",
           .shape = {2, 2},
           .type = ElementType::uint8,
           .kind = SyntheticKind::uniform,
           .low = 0,
           .high = 256},
          {.name = "y", .shape = {4}, .role = FieldRole::target, .kind = SyntheticKind::linear},
          {.name = "label",
           .shape = {},
           .type = ElementType::int32,
           .role = FieldRole::target,
           .kind = SyntheticKind::linear_classes,
           .classes = 6}};
}

}  // namespace

TEST_CASE("any block of any rows is the block of the whole") {
  const SyntheticSource source(20, mixed_fields(), 5);
  const std::vector<std::int64_t> rows{19, 3, 4, 3};
  CHECK(read_block<float>(source, 0, rows, {{1, 4}, {2, 3}}) ==
        picked(read_all<float>(source, 0), {5, 3}, rows, {{1, 4}, {2, 3}}));
  CHECK(read_block<std::uint8_t>(source, 1, rows, {{0, 1}, {0, 2}}) ==
        picked(read_all<std::uint8_t>(source, 1), {2, 2}, rows, {{0, 1}, {0, 2}}));
  CHECK(read_block<float>(source, 2, rows, {{1, 3}}) ==
        picked(read_all<float>(source, 2), {4}, rows, {{1, 3}}));
  CHECK(read_block<std::int32_t>(source, 3, rows, {}) ==
        picked(read_all<std::int32_t>(source, 3), {}, rows, {}));
}

TEST_CASE("synthetic numbers follow the seed and the field's name") {
  const auto numbers = [](std::uint64_t seed, std::string name) {
    return read_all<float>(SyntheticSource(50, {{.name = std::move(name), .shape = {3}}}, seed), 0);
  };
  CHECK(numbers(1, "x") == numbers(1, "x"));
  CHECK(numbers(1, "x") != numbers(2, "x"));
  CHECK(numbers(1, "x") != numbers(1, "y"));
}

TEST_CASE("normal numbers have their mean and standard deviation") {
  const SyntheticSource source(
      20000, {{.name = "x", .shape = {5}, .kind = SyntheticKind::normal, .mean = 3, .stddev = 2}},
      1);
  const Moments m = moments(read_all<float>(source, 0));
  // 100,000 numbers: the mean has a standard deviation of 0.006, the variance one of 0.018.
  CHECK(std::abs(m.mean - 3) < 0.03);
  CHECK(std::abs(m.variance - 4) < 0.09);
}

TEST_CASE("uniform numbers fill their interval") {
  const SyntheticSource source(
      20000,
      {{.name = "x", .shape = {5}, .kind = SyntheticKind::uniform, .low = -1, .high = 3},
       {.name = "bytes",
        .shape = {5},
        .type = ElementType::uint8,
        .kind = SyntheticKind::uniform,
        .low = 10,
        .high = 20}},
      1);
  const Moments m = moments(read_all<float>(source, 0));
  CHECK(std::abs(m.mean - 1) < 0.02);
  CHECK(std::abs(m.variance - 16.0 / 12) < 0.02);
  CHECK(m.least >= -1);
  CHECK(m.largest < 3);
  const Moments bytes = moments(read_all<std::uint8_t>(source, 1));
  CHECK(bytes.least == 10);
  CHECK(bytes.largest == 19);
  CHECK(std::abs(bytes.mean - 14.5) < 0.05);
}

TEST_CASE("classes are equally likely") {
  const SyntheticSource source(70000,
                               {{.name = "x", .shape = {1}},
                                {.name = "label",
                                 .shape = {},
                                 .type = ElementType::int64,
                                 .role = FieldRole::target,
                                 .kind = SyntheticKind::classes,
                                 .classes = 7}},
                               1);
  std::vector<int> counts(7, 0);
  for (const std::int64_t label : read_all<std::int64_t>(source, 1)) {
    REQUIRE((0 <= label && label < 7));
    ++counts[label];
  }
  // 10,000 expected, standard deviation 93.
  for (const int count : counts) CHECK(std::abs(count - 10000) < 450);
}

TEST_CASE("linear targets are a linear function of the first feature") {
  // Targets of 40 samples in 15 unknown weights: Gaussian elimination on the first 15 gives the
  // weights, which then predict the others.
  const SyntheticSource source(40, mixed_fields(), 5);
  const std::vector<float> x = read_all<float>(source, 0), y = read_all<float>(source, 2);
  constexpr int n = 15;
  double system[n][n + 1];
  for (int row = 0; row < n; ++row) {
    for (int column = 0; column < n; ++column) system[row][column] = x[row * n + column];
    system[row][n] = y[row * 4 + 1];
  }
  for (int pivot = 0; pivot < n; ++pivot) {
    int best = pivot;
    for (int row = pivot; row < n; ++row) {
      if (std::abs(system[row][pivot]) > std::abs(system[best][pivot])) best = row;
    }
    std::swap(system[pivot], system[best]);
    for (int row = 0; row < n; ++row) {
      if (row == pivot) continue;
      const double factor = system[row][pivot] / system[pivot][pivot];
      for (int column = pivot; column <= n; ++column) {
        system[row][column] -= factor * system[pivot][column];
      }
    }
  }
  for (int row = n; row < 40; ++row) {
    double prediction = 0;
    for (int i = 0; i < n; ++i) prediction += system[i][n] / system[i][i] * x[row * n + i];
    // Float32 inputs through a system of condition some hundreds.
    CHECK(std::abs(prediction - y[row * 4 + 1]) < 1e-3);
  }
}

TEST_CASE("linear classes are the largest of as many linear targets, however many") {
  constexpr std::int64_t classes = 35;
  SyntheticField target{
      .name = "y", .shape = {classes}, .role = FieldRole::target, .kind = SyntheticKind::linear};
  const SyntheticField x{.name = "x", .shape = {6}, .kind = SyntheticKind::normal};
  const SyntheticSource numbers(30, {x, target}, 9);
  target.shape = {};
  target.kind = SyntheticKind::linear_classes;
  target.classes = classes;
  const SyntheticSource labels(30, {x, target}, 9);
  const std::vector<float> y = read_all<float>(numbers, 1), label = read_all<float>(labels, 1);
  for (std::int64_t row = 0; row < 30; ++row) {
    const auto first = y.begin() + row * classes;
    CHECK(label[row] == static_cast<float>(std::max_element(first, first + classes) - first));
  }
  CHECK(numbers.classes_by_construction(1) == 0);
  CHECK(labels.classes_by_construction(1) == classes);
  CHECK(Subset(std::make_shared<SyntheticSource>(labels), 3, 9).classes_by_construction(1) ==
        classes);
}

TEST_CASE("wrong synthetic fields are errors that name them") {
  const auto make = [](SyntheticField field) {
    SyntheticSource(1, {{.name = "x", .shape = {2}}, std::move(field)}, 0);
  };
  using enum SyntheticKind;
  CHECK_THROWS_WITH(
      make({.name = "f", .kind = uniform, .low = 1, .high = 1}),
      Catch::Contains("\"f\" (uniform, float32)") && Catch::Contains("low 1 must be below high 1"));
  CHECK_THROWS_WITH(
      make({.name = "f", .type = ElementType::uint8, .kind = uniform, .low = 0, .high = 300}),
      Catch::Contains("from 0 to 256"));
  CHECK_THROWS_WITH(make({.name = "f", .type = ElementType::int32, .kind = normal}),
                    Catch::Contains("float32"));
  CHECK_THROWS_WITH(make({.name = "f", .kind = classes, .classes = 0}),
                    Catch::Contains("classes: expected a positive integer, found 0"));
  CHECK_THROWS_WITH(
      make({.name = "f", .type = ElementType::uint8, .kind = classes, .classes = 257}),
      Catch::Contains("257 classes"));
  CHECK_THROWS_WITH(SyntheticSource(1, {{.name = "f", .kind = linear}}, 0),
                    Catch::Contains("first feature"));
  CHECK_THROWS_WITH(SyntheticSource(-1, {{.name = "f"}}, 0), Catch::Contains("-1 samples"));
}

}  // namespace meshwork::synthetic_test

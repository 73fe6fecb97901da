#include "runtime/data/order.h"

#include "tests/support/catch.h"

#include <cmath>
#include <map>
#include <numeric>

namespace meshwork::order_test {

namespace {

std::vector<std::int64_t> all(const SampleOrder& order) {
  std::vector<std::int64_t> samples(static_cast<std::size_t>(order.rows()));
  order.fill(0, samples);
  return samples;
}

bool is_permutation(const std::vector<std::int64_t>& samples) {
  std::vector<bool> seen(samples.size(), false);
  for (const std::int64_t sample : samples) {
    if (sample < 0 || sample >= static_cast<std::int64_t>(samples.size()) || seen[sample])
      return false;
    seen[sample] = true;
  }
  return true;
}

}  // namespace

TEST_CASE("the shuffled order is a permutation, whatever the number of rows") {
  std::vector<std::int64_t> counts(301);
  std::iota(counts.begin(), counts.end(), 0);
  for (const std::int64_t rows : {509, 997, 1009, 4093, 7919, 60000, 65536, 65537, 104729}) {
    counts.push_back(rows);
  }
  for (const std::int64_t rows : counts) {
    for (const std::int64_t epoch : {0, 1, 17}) {
      INFO("rows " << rows << ", epoch " << epoch);
      REQUIRE(is_permutation(all(SampleOrder::shuffled(rows, 7, epoch))));
    }
  }
}

TEST_CASE("any position can be asked for on its own") {
  const SampleOrder order = SampleOrder::shuffled(1000, 3, 2);
  const std::vector<std::int64_t> samples = all(order);
  for (const std::int64_t position : {999, 0, 500, 1})
    CHECK(order.at(position) == samples[position]);
  std::vector<std::int64_t> part(5);
  order.fill(995, part);
  CHECK(part == std::vector<std::int64_t>(samples.end() - 5, samples.end()));
}

TEST_CASE("the order depends on nothing but rows, seed and epoch") {
  CHECK(all(SampleOrder::shuffled(1000, 3, 2)) == all(SampleOrder::shuffled(1000, 3, 2)));
  CHECK(all(SampleOrder::shuffled(1000, 3, 2)) != all(SampleOrder::shuffled(1000, 3, 3)));
  CHECK(all(SampleOrder::shuffled(1000, 3, 2)) != all(SampleOrder::shuffled(1000, 4, 2)));
  // Continuing a run relies on the order staying what it was. These values come from the
  // description in order.h written down a second time, in Python, on the published constants of
  // Philox.
  CHECK(all(SampleOrder::shuffled(10, 7, 0)) ==
        std::vector<std::int64_t>{2, 6, 1, 0, 4, 3, 5, 8, 7, 9});
  CHECK(all(SampleOrder::shuffled(10, 7, 1)) ==
        std::vector<std::int64_t>{2, 4, 5, 7, 8, 9, 0, 1, 6, 3});
}

TEST_CASE("the identity is the identity") {
  CHECK(all(SampleOrder::identity(4)) == std::vector<std::int64_t>{0, 1, 2, 3});
  CHECK(SampleOrder::identity(0).rows() == 0);
}

TEST_CASE("huge data sets are permuted without memory") {
  constexpr std::int64_t rows = std::int64_t{1} << 62;
  const SampleOrder order = SampleOrder::shuffled(rows, 1, 0);
  std::map<std::int64_t, int> seen;
  for (std::int64_t i = 0; i < 1000; ++i) {
    const std::int64_t sample = order.at(rows - 1 - i);
    REQUIRE((0 <= sample && sample < rows));
    ++seen[sample];
  }
  CHECK(seen.size() == 1000);
}

TEST_CASE("every sample comes to every place equally often") {
  // For each place a chi-square of 16 cells over many epochs; the sum over places has (n-1)^2
  // degrees of freedom (rows and columns of the table have fixed sums). Mean 225, standard
  // deviation 21; the bounds are 5 of these. The numbers are fixed by the seed, so this cannot fail
  // by chance.
  for (const std::int64_t rows : {16, 13}) {
    constexpr int epochs = 4000;
    std::vector<std::vector<int>> table(rows, std::vector<int>(rows, 0));
    for (int epoch = 0; epoch < epochs; ++epoch) {
      const SampleOrder order = SampleOrder::shuffled(rows, 11, epoch);
      for (std::int64_t place = 0; place < rows; ++place) ++table[place][order.at(place)];
    }
    const double expected = static_cast<double>(epochs) / static_cast<double>(rows);
    double chi_square = 0;
    for (const auto& line : table) {
      for (const int count : line) chi_square += (count - expected) * (count - expected) / expected;
    }
    const double freedom = static_cast<double>((rows - 1) * (rows - 1));
    INFO("rows " << rows << ", chi-square " << chi_square << " for " << freedom);
    CHECK(std::abs(chi_square - freedom) < 5 * std::sqrt(2 * freedom));
  }
}

TEST_CASE("neighbours do not stay neighbours, and the order has no trend") {
  constexpr std::int64_t rows = 60000;
  const std::vector<std::int64_t> samples = all(SampleOrder::shuffled(rows, 7, 0));
  // A random permutation has about two places where the next sample is the neighbour.
  int neighbours = 0;
  double correlation = 0, serial = 0;
  const double mean = (rows - 1) / 2.0;
  const double variance = (static_cast<double>(rows) * rows - 1) / 12;
  for (std::int64_t i = 0; i < rows; ++i) {
    correlation += (i - mean) * (samples[i] - mean) / variance / rows;
    if (i + 1 == rows) break;
    neighbours += std::abs(samples[i + 1] - samples[i]) == 1;
    serial += (samples[i] - mean) * (samples[i + 1] - mean) / variance / rows;
  }
  CHECK(neighbours < 15);
  // Both are normal with standard deviation 1/sqrt(rows) = 0.004.
  CHECK(std::abs(correlation) < 0.02);
  CHECK(std::abs(serial) < 0.02);
}

}  // namespace meshwork::order_test

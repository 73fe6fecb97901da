// Normalization against a reference in double precision, on every mesh.
#include "layers/normalization.h"

#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "layers/dense.h"
#include "runtime/data/array.h"
#include "tests/support/catch.h"
#include "tests/support/one_rank.h"

namespace meshwork::normalization_test {

using namespace meshwork::test;

namespace {

constexpr std::int64_t samples = 101, places = 5, channels = 3;

// Channel 2 is constant; channel 1 varies by little around `far`.
template <class T>
std::vector<T> numbers(double far) {
  const std::vector<float> random = random_floats(samples * places * channels, 5);
  std::vector<T> values;
  for (std::size_t i = 0; i < random.size(); ++i) {
    const double value = 100 + 50.0 * random[i];
    values.push_back(static_cast<T>(i % 3 == 0 ? value : i % 3 == 1 ? far + random[i] : 7));
  }
  return values;
}

struct Reference {
  std::vector<double> mean, variance, normalized;
};

template <class T>
Reference reference_of(const std::vector<T>& values) {
  Reference found{std::vector<double>(channels), std::vector<double>(channels), {}};
  const double count = samples * places;
  for (std::size_t i = 0; i < values.size(); ++i) found.mean[i % channels] += values[i] / count;
  for (std::size_t i = 0; i < values.size(); ++i) {
    found.variance[i % channels] += std::pow(values[i] - found.mean[i % channels], 2) / count;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double deviation = std::max(std::sqrt(found.variance[i % channels]), 1e-7);
    found.normalized.push_back((values[i] - found.mean[i % channels]) / deviation);
  }
  return found;
}

template <class T>
void check_adapted(double far, double tolerance) {
  const std::vector<T> values = numbers<T>(far);
  const Reference reference = reference_of(values);
  const auto data =
      std::make_shared<ArraySource>(std::vector{Array("x", values, {samples, places, channels})});
  const std::vector<std::pair<std::string, LayoutEntries>> spreads{
      {"data", {}},
      {"model", {{"n/mean", {"model"}}, {"n/output", {unsharded, unsharded, "model"}}}}};
  for (const auto& [axis, layouts] : spreads) {
    INFO("axis " << axis);
    DeviceMesh mesh({{axis, Communicator::world().size()}}, Communicator::world());
    const auto x = Input({places, channels});
    Model model(x, Normalization({.name = "n"})(x),
                spread_over(mesh, layouts, axis == "data" ? axis : ""));
    model.adapt(data);
    const std::vector<float> mean = model.variable("n/mean");
    const std::vector<float> variance = model.variable("n/variance");
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      INFO("channel " << channel);
      CHECK(mean[channel] == Approx(reference.mean[channel]).epsilon(1e-6));
      CHECK(variance[channel] == Approx(reference.variance[channel]).epsilon(1e-6).margin(1e-12));
    }
    const std::vector<float> found = model.predict(data, {.batch_size = 20});
    REQUIRE(found.size() == reference.normalized.size());
    double worst = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      worst = std::max(worst, std::abs(found[i] - reference.normalized[i]));
    }
    CHECK(worst < tolerance);
  }
}

}  // namespace

TEST_CASE("Normalization gives each channel of the training data mean 0 and variance 1") {
  check_adapted<float>(-3, 2e-6);
  check_adapted<std::uint8_t>(9, 2e-6);
  check_adapted<std::int32_t>(2000, 2e-4);  // float32 has 2000 and what is around it to 1e-4
}

TEST_CASE("the variance of numbers far from 0 does not cancel") {
  // In float32 sums of squares of 1e6 would keep nothing of a variance below 1.
  const std::vector<double> values = numbers<double>(1e6);
  const Reference reference = reference_of(values);
  const auto data =
      std::make_shared<ArraySource>(std::vector{Array("x", values, {samples, places, channels})});
  DeviceMesh mesh({{"data", Communicator::world().size()}}, Communicator::world());
  const auto x = Input({places, channels});
  Model model(x, Normalization({.name = "n"})(x), spread_over(mesh, {}, "data"));
  model.adapt(data);
  CHECK(model.variable("n/variance")[1] == Approx(reference.variance[1]).epsilon(1e-6));
}

TEST_CASE("statistics of samples that are read in several pieces are those of all") {
  // 0, 1, 2, ...: more bytes than are read at once, and pieces of different means.
  constexpr std::int64_t rows = 9'000'001;
  std::vector<float> values(rows);
  std::iota(values.begin(), values.end(), 0.0F);
  const auto data =
      std::make_shared<ArraySource>(std::vector{Array("x", std::move(values), {rows, 1})});
  DeviceMesh mesh({{"data", Communicator::world().size()}}, Communicator::world());
  const auto x = Input({1});
  Model model(x, Normalization({.name = "n"})(x), spread_over(mesh, {}, "data"));
  model.adapt(data);
  const double n = rows;
  CHECK(model.variable("n/mean")[0] == Approx((n - 1) / 2).epsilon(1e-7));
  CHECK(model.variable("n/variance")[0] == Approx((n * n - 1) / 12).epsilon(1e-7));
}

TEST_CASE("Normalization by numbers that are given looks at no data") {
  DeviceMesh mesh({{"data", Communicator::world().size()}}, Communicator::world());
  const auto x = Input({2});
  Model model(x, Normalization({.mean = 3, .variance = 4})(x), spread_over(mesh, {}, "data"));
  const auto data = std::make_shared<ArraySource>(
      std::vector{Array("x", std::vector<float>{3, 5, 1, 7, 3, 3, -1, 4}, {4, 2})});
  model.adapt(data);
  CHECK(model.predict(data) == std::vector<float>{0, 1, -1, 2, 0, 0, -2, 0.5});
}

TEST_CASE("each channel is normalized by the numbers that are listed for it") {
  DeviceMesh mesh({{"model", Communicator::world().size()}}, Communicator::world());
  const auto x = Input({3});
  const std::vector<double> mean{3, 0, -1}, variance{4, 1, 0.25};
  const std::vector<float> values{3, 5, 1, 7, 3, -1}, normalized{0, 5, 4, 2, 3, 0};
  const LayoutEntries layouts{{"n/output", {unsharded, "model"}}, {"n/mean", {"model"}}};
  for (const bool invert : {false, true}) {
    INFO("inverted: " << invert);
    Model model(
        x, Normalization({.name = "n", .mean = mean, .variance = variance, .invert = invert})(x),
        spread_over(mesh, layouts, ""));
    const auto data = std::make_shared<ArraySource>(
        std::vector{Array("x", invert ? normalized : values, {2, 3})});
    model.adapt(data);
    CHECK(model.variable("n/mean") == std::vector<float>{3, 0, -1});
    CHECK(model.predict(data) == (invert ? values : normalized));
  }
  CHECK_THROWS_WITH(Normalization({.name = "n", .mean = mean, .variance = 1})(Input({2})),
                    Catch::Contains("n: mean: expected a number, or one for each of 2 channels"));
  CHECK_THROWS_WITH(
      Normalization({.name = "n", .mean = mean, .variance = std::vector<double>{1, 1, -1}}),
      Catch::Contains("variance") && Catch::Contains("found -1"));
}

TEST_CASE("an inverted Normalization brings normalized data back to what it adapted to") {
  DeviceMesh mesh({{"data", Communicator::world().size()}}, Communicator::world());
  const std::vector<float> values = numbers<float>(-3);
  const auto source = [&](std::vector<float> of) {
    return std::make_shared<ArraySource>(
        std::vector{Array("x", std::move(of), {samples, places, channels})});
  };
  const auto x = Input({places, channels});
  Model forth(x, Normalization({.name = "n"})(x), spread_over(mesh, {}, "data"));
  Model back(x, Normalization({.name = "n", .invert = true})(x), spread_over(mesh, {}, "data"));
  forth.adapt(source(values));
  back.adapt(source(values));
  const std::vector<float> found = back.predict(source(forth.predict(source(values))));
  REQUIRE(found.size() == values.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CHECK(found[i] == Approx(values[i]).epsilon(1e-6).margin(1e-5));
  }
}

TEST_CASE("what a Normalization cannot adapt to is an error on every rank") {
  CHECK_THROWS_WITH(Normalization({.name = "n", .mean = 1}),
                    Catch::Contains("both mean and variance"));
  CHECK_THROWS_WITH(Normalization({.name = "n", .axis = 1}), Catch::Contains("expected -1"));
  DeviceMesh mesh({{"data", Communicator::world().size()}}, Communicator::world());
  const auto x = Input({2});
  const auto source = [](std::vector<float> values) {
    const auto rows = static_cast<std::int64_t>(values.size() / 2);
    return std::make_shared<ArraySource>(std::vector{Array("x", std::move(values), {rows, 2})});
  };
  Model behind(x, Normalization({.name = "n"})(Dense({.units = 2})(x)),
               spread_over(mesh, {}, "data"));
  CHECK_THROWS_WITH(behind.adapt(source({1, 2})),
                    Catch::Contains("n: adapts to the training data"));
  Model model(x, Normalization({.name = "n"})(x), spread_over(mesh, {}, "data"));
  CHECK_THROWS_WITH(model.adapt(source({})), Catch::Contains("no samples"));
  CHECK_THROWS_WITH(model.adapt(source({1, 2, 3, std::numeric_limits<float>::infinity(), 5, 6})),
                    Catch::Contains("field x: channel 1 has the mean inf"));
}

}  // namespace meshwork::normalization_test

#include "runtime/train/reporting/profile.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/device/kernels/precision.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>
#include <optional>
#include <regex>
#include <sstream>

#include "layers/dense.h"
#include "runtime/data/synthetic.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/model.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/one_rank.h"

namespace meshwork::profile_test {

namespace {

/// What `fit` prints of `batches` batches of 12 rows, and the logs of the last epoch.
std::pair<std::string, Logs> fitted(DeviceMesh& mesh, std::int64_t batches, bool profile,
                                    std::optional<Distribution> spread = std::nullopt,
                                    const std::vector<std::int64_t>& more_units = {}) {
  const auto data = std::make_shared<SyntheticSource>(
      12 * batches,
      std::vector<SyntheticField>{
          {"x", {7}, ElementType::float32, FieldRole::feature, SyntheticKind::uniform, -1, 1},
          {"y", {5}, ElementType::float32, FieldRole::target, SyntheticKind::uniform, -1, 1}},
      11);
  const auto input = Input({7});
  auto x = Dense({.name = "hidden", .units = 9, .activation = Activation::relu})(input);
  for (const std::int64_t units : more_units) x = Dense({.units = units})(x);
  Model model(input, Dense({.name = "last", .units = 5})(x), spread.value_or(DataParallel(mesh)));
  model.compile({.loss = MeanSquaredError(), .optimizer = SGD({.learning_rate = 0.01})});
  std::ostringstream printed;
  std::streambuf* const before = std::cout.rdbuf(printed.rdbuf());
  (void)model.fit(data, {.epochs = 2,
                         .batch_size = 12,
                         .validation = data,
                         .verbose = Verbosity::lines,
                         .profile = profile});
  std::cout.rdbuf(before);
  return {printed.str(), model.evaluate(data, {.batch_size = 12})};
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a profile tells of every layer, every part, and every step that counts") {
  const Communicator world = Communicator::world();
  DeviceMesh mesh({{"data", -1}});
  const std::string text = fitted(mesh, 50, true).first;
  INFO(text);
  if (world.rank() != 0) {
    CHECK(text.empty());
    return;
  }
  CHECK(has(text, fmt::format("profile: {} steps of 12 rows on {} rank", 100 - StepProfile::warm_up,
                              world.size())));
  for (const char* part : {"kernels", "collectives", "waiting", "reading", "feeding", "between"}) {
    CHECK(has(text, part));
  }
  CHECK(has(text, "hidden/product"));
  CHECK(has(text, "last/product"));
  CHECK(has(text, "matmul tn 7x9x"));
  CHECK(has(text, "sgd"));
  CHECK(has(text, "wait for gradients") == (world.size() > 1));
  CHECK_FALSE(has(text, "nan"));
}

TEST_CASE("of a pipeline a profile compares the step with its schedule, and tells no waiting") {
  DeviceMesh mesh({{"stage", -1}, {"data", 1}});
  const Distribution stages =
      DataParallel(mesh, {.places = {{"hidden", {{"stage", 0}}}, {"last", {{"stage", 1}}}},
                          .stages = {.axis = "stage"}});
  const std::string text = fitted(mesh, 50, true, stages).first;
  INFO(text);
  if (mesh.rank() != 0) return;
  CHECK(has(text, "pipeline over stage, 1f1b: kernels in the order of the schedule would take") ==
        (mesh.shape().rank_count() > 1));
  CHECK(has(text, "of it waiting") == (mesh.shape().rank_count() == 1));
  CHECK_FALSE(has(text, "nan"));
}

/// The table of kernels, which is the last.
std::string of_kernels(const std::string& text) {
  const std::size_t begin = text.find("rank 0 by kernel");
  REQUIRE(begin != std::string::npos);
  return text.substr(begin);
}

TEST_CASE("a profile sums kernels that do the same, whatever their layers") {
  DeviceMesh mesh({{"data", -1}});
  const std::string text = fitted(mesh, 50, true, std::nullopt, {64, 64, 64, 64, 64}).first;
  INFO(text);
  if (mesh.rank() != 0) return;
  const std::string kernels = of_kernels(text);
  std::smatch row;  // rows of a block, times, microseconds, GFLOP/s
  REQUIRE(std::regex_search(
      kernels, row,
      std::regex(R"(\n  matmul tn 64x64x(\d+)[a-z ]* (\d+) +([\d.]+) +[\d.]+ % +([\d.]+) )")));
  CHECK(row[2] == "4");
  // The rate is that of all four. Digits that are not shown, and sums of columns, are a part of it.
  const double flops = 4 * 2.0 * 64 * 64 * std::stod(row[1]);
  const double shown = std::stod(row[3]) * 1e-6 * std::stod(row[4]) * 1e9;
  CHECK(shown > flops / 2);
  CHECK(shown < flops * 2);
  CHECK(std::regex_search(kernels, std::regex(R"(\n  matmul tn 7x9x\d+[a-z ]* 1 +\d)")));
  CHECK_FALSE(has(kernels, "wait for gradients"));
  CHECK_FALSE(has(kernels, "others"));
}

TEST_CASE("a profile sums what is behind forty kernels") {
  DeviceMesh mesh({{"data", -1}});
  std::vector<std::int64_t> units(20);
  std::iota(units.begin(), units.end(), 10);
  const std::string text = fitted(mesh, 50, true, std::nullopt, units).first;
  INFO(text);
  if (mesh.rank() != 0) return;
  const std::string kernels = of_kernels(text);
  std::smatch others;
  REQUIRE(std::regex_search(kernels, others, std::regex(R"(\n  others +\d+ +[\d.]+ +[\d.]+ %)")));
  // Above stand the title, the heading and the forty.
  CHECK(std::count(kernels.begin(), others[0].first, '\n') == 41);
}

TEST_CASE("a run that is shorter than what does not count says so") {
  DeviceMesh mesh({{"data", -1}});
  const std::string text = fitted(mesh, StepProfile::warm_up / 2, true).first;
  CHECK(has(text, "no steps to report") == (mesh.rank() == 0));
}

TEST_CASE("a profile changes no number, and nothing is said without it") {
  DeviceMesh mesh({{"data", -1}});
  const auto [text, logs] = fitted(mesh, 15, false);
  CHECK_FALSE(has(text, "profile"));
  CHECK(fitted(mesh, 15, true).second.find("loss") == logs.find("loss"));
}

TEST_CASE("the bound of a kernel is its arithmetic or its bytes, at the rate of their size") {
  DeviceRates rates;
  rates.flops_per_second = {100, 400, 200};
  rates.bandwidths = {{{10, 50}, {100, 20}, {1000, 5}}};
  CHECK(rates.bound({.flops = 200, .bytes = 10}) == 2);
  CHECK(rates.bound({.flops = 200, .bytes = 10, .precision = Precision::bfloat16}) == 1);
  CHECK(rates.bound({.flops = 200, .bytes = 10, .precision = Precision::tf32}) == 0.5);
  CHECK(rates.bound({.flops = 0, .bytes = 10}) == 0.2);
  CHECK(rates.bound({.flops = 10, .bytes = 100}) == 5);
  CHECK(rates.bound({.flops = 0, .bytes = 5000}) == 1000);
  // Half way from 10 to 100 bytes in powers, the rate is half way from 50 to 20.
  CHECK(*rates.bound({.flops = 0, .bytes = std::sqrt(1000.0)}) == Approx(1));
}

TEST_CASE("what fewer bytes than were ever timed bound has no bound, but arithmetic has") {
  DeviceRates rates;
  rates.flops_per_second = {100, 400, 200};
  rates.bandwidths = {{{10, 50}, {100, 20}, {1000, 5}}};
  CHECK(rates.bound({.flops = 0, .bytes = 9}) == std::nullopt);
  CHECK(rates.bound({.flops = 17, .bytes = 9}) == std::nullopt);
  CHECK(rates.bound({.flops = 200, .bytes = 9}) == 2);
}

TEST_CASE("a collective inside a layer has a row of its own there") {
  const Communicator world = Communicator::world();
  DeviceMesh mesh({{"model", -1}});
  LayoutMap layouts(mesh.shape());
  layouts["hidden/kernel"] = {unsharded, "model"};
  layouts["last/kernel"] = {"model", unsharded};
  const std::string text =
      fitted(mesh, 20, true, ModelParallel(mesh, layouts, {.batch_axis = ""})).first;
  INFO(text);
  if (world.rank() == 0) CHECK(has(text, " collective ") == (world.size() > 1));
}

}  // namespace meshwork::profile_test

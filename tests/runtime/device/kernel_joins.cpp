#include "runtime/device/kernel_joins.h"
#include "runtime/device/kernels/classes.h"
#include "runtime/device/kernels/elementwise.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace meshwork::kernel_joins_test {

namespace {

/// Two rows of three classes, the second right.
struct Rows {
  std::vector<float> x{1, 2, 3, 5, 4, 6};
  std::vector<std::int32_t> targets{2, 1}, others{0, 0};
  std::unique_ptr<Device> device = make_device({.kind = "cpu"});
  ProgramBuilder builder{*device};
  Buffer predictions = builder.external(x.data(), 24, "x");
  Buffer right = builder.external(targets.data(), 8, "targets");
  Buffer wrong = builder.external(others.data(), 8, "others");
  Buffer sums = builder.scratch(4 * 8, "sums");
  Buffer dx = builder.scratch(24, "dx");
  ClassColumns at{.rows = 2, .columns = 3, .classes = 3};

  Rows() {
    builder.keep(sums);
    builder.keep(dx);
  }
  void loss(std::int64_t sum) {
    builder.emit(
        ClassComparisonSpec{
            .at = at, .crossentropy = Crossentropy::of_logits, .gradient = true, .scale = 0.5f},
        {predictions, right, Operand(sums, 8 * sum), dx}, "loss");
  }
  void within(std::int64_t k, std::int64_t sum, Buffer target) {
    builder.emit(ClassComparisonSpec{.at = at, .within = {k}},
                 {predictions, target, Operand(sums, 8 * sum)}, fmt::format("top {}", k));
  }
};

}  // namespace

TEST_CASE("metrics that are booked beside a loss of the same rows ride with it") {
  Rows apart;
  apart.loss(0);
  apart.builder.emit(ZeroSpec{0}, {apart.dx}, "between");
  apart.within(1, 1, apart.right);
  apart.builder.emit(ZeroSpec{0}, {apart.dx}, "between");
  apart.within(3, 2, apart.right);
  Program one_by_one = apart.builder.finish();
  REQUIRE(one_by_one.instruction_count() == 5);
  one_by_one.run();

  for (const int place_of_loss : {0, 1, 2}) {
    Rows rows;
    for (int place = 0, metric = 0; place < 3; ++place) {
      if (place == place_of_loss) {
        rows.loss(0);
      } else {
        rows.within(metric == 0 ? 1 : 3, metric == 0 ? 1 : 2, rows.right);
        ++metric;
      }
    }
    Program joined = rows.builder.finish();
    REQUIRE(joined.instruction_count() == 1);
    if (place_of_loss == 0) {
      CHECK(joined.labels() ==
            std::vector<std::string>{"loss+top 1+top 3: class comparison 2x3 loss gradient rank"});
    }
    joined.run();
    const auto* found = static_cast<const double*>(joined.address(rows.sums));
    const auto* expected = static_cast<const double*>(one_by_one.address(apart.sums));
    CHECK(std::vector<double>(found, found + 3) == std::vector<double>(expected, expected + 3));
    CHECK(found[1] == 1);
    CHECK(found[2] == 2);
    const auto* dx = static_cast<const float*>(joined.address(rows.dx));
    const auto* other = static_cast<const float*>(one_by_one.address(apart.dx));
    CHECK(std::vector<float>(dx, dx + 6) == std::vector<float>(other, other + 6));
  }
}

TEST_CASE("metrics ride with a loss that weighs its rows, and are not weighted") {
  std::vector<float> weights{2, 0.5f};
  const auto book = [&](Rows& rows) {
    ClassColumns at = rows.at;
    at.rows_a_weight = 1;
    const Buffer w = rows.builder.external(weights.data(), 8, "weights");
    rows.builder.emit(
        ClassComparisonSpec{
            .at = at, .crossentropy = Crossentropy::of_logits, .gradient = true, .scale = 0.5f},
        {rows.predictions, rows.right, w, Operand(rows.sums, 0), rows.dx}, "loss");
  };
  Rows before, behind;
  before.within(1, 1, before.right);
  book(before);
  book(behind);
  behind.within(1, 1, behind.right);
  Rows without;
  without.loss(0);
  Program unweighted = without.builder.finish();
  unweighted.run();
  const double plain = *static_cast<const double*>(unweighted.address(without.sums));
  for (Rows* rows : {&before, &behind}) {
    Program joined = rows->builder.finish();
    REQUIRE(joined.instruction_count() == 1);
    joined.run();
    const auto* sums = static_cast<const double*>(joined.address(rows->sums));
    const auto* dx = static_cast<const float*>(joined.address(rows->dx));
    const auto* plain_dx = static_cast<const float*>(unweighted.address(without.dx));
    // log(1 + e^-1 + e^-2) and log(1 + e^-1 + e^-2) + 2, of which the second weighs a quarter.
    const double log_sum = std::log(1 + std::exp(-1) + std::exp(-2));
    CHECK(plain == Approx(2 * log_sum + 2).epsilon(1e-6));
    CHECK(sums[0] == Approx(2 * log_sum + 0.5 * (log_sum + 2)).epsilon(1e-6));
    CHECK(sums[1] == 1);
    for (int i = 0; i < 6; ++i) {
      CHECK(dx[i] == Approx(plain_dx[i] * weights[static_cast<std::size_t>(i / 3)]).epsilon(1e-6));
    }
  }
}

TEST_CASE("kernels of other targets, and a second loss, stay by themselves") {
  Rows rows;
  rows.loss(0);
  rows.loss(1);
  rows.within(1, 2, rows.wrong);
  rows.within(1, 3, rows.wrong);
  CHECK(rows.builder.finish().labels() ==
        std::vector<std::string>{"loss: class comparison 2x3 loss gradient",
                                 "loss: class comparison 2x3 loss gradient",
                                 "top 1+top 1: class comparison 2x3 rank"});
}

TEST_CASE("what only plans sees joined kernels as one") {
  std::vector<KernelSpec> specs;
  ProgramBuilder builder(&specs);
  const Buffer x = builder.scratch(24, "x"), t = builder.scratch(8, "t");
  const Buffer sums = builder.scratch(16, "sums");
  const ClassColumns at{.rows = 2, .columns = 3, .classes = 3};
  builder.emit(ClassComparisonSpec{.at = at, .within = {1}}, {x, t, sums}, "one");
  builder.emit(ClassComparisonSpec{.at = at, .within = {2}}, {x, t, Operand(sums, 8)}, "two");
  REQUIRE(specs.size() == 1);
  CHECK(specs[0].get_if<ClassComparisonSpec>()->within == std::vector<std::int64_t>{1, 2});
}

}  // namespace meshwork::kernel_joins_test

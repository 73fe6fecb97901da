#include "runtime/checkpoint/directory.h"

#include "tests/support/catch.h"

using namespace meshwork;

namespace {

std::vector<std::int64_t> steps_of(const std::vector<FoundCheckpoint>& checkpoints) {
  std::vector<std::int64_t> steps;
  for (const FoundCheckpoint& checkpoint : checkpoints) steps.push_back(checkpoint.step);
  return steps;
}

}  // namespace

TEST_CASE("names carry the step, in an order that a listing shows") {
  CHECK(checkpoint_name(1200) == "step-000001200.h5");
  CHECK(step_in_name("step-000001200.h5") == 1200);
  CHECK(step_in_name(checkpoint_name(12345678901)) == 12345678901);
  for (const char* name : {"step-.h5", "step-12.h5.tmp", "step-12", "step-x.h5", "best.h5",
                           "step--1.h5", "step-99999999999999999999.h5"}) {
    CHECK_FALSE(step_in_name(name).has_value());
  }
}

TEST_CASE("the newest stay, and the best one") {
  const std::vector<FoundCheckpoint> all{
      {"e", 50, 5, "", 0.9}, {"d", 40, 4, "", 0.3}, {"c", 30, 3, "", std::nullopt},
      {"b", 20, 2, "", 0.2}, {"a", 10, 1, "", 0.2}, {"x", 60, 0, "damaged", std::nullopt}};
  CHECK(steps_of(superfluous(all, 2, true)) == std::vector<std::int64_t>{30, 20});
  CHECK(steps_of(superfluous(all, 2, false)) == std::vector<std::int64_t>{30, 20, 10});
  CHECK(steps_of(superfluous(all, 5, true)).empty());
  CHECK(steps_of(superfluous(all, 1, true)) == std::vector<std::int64_t>{40, 30, 20});
}

TEST_CASE("a directory that is not there has no checkpoints, one that cannot be made is an error") {
  CHECK(list_checkpoints("nowhere/at/all", "").checkpoints.empty());
  CHECK_THROWS_WITH(prepare_directory("/proc/nothing"), Catch::Contains("/proc/nothing"));
}

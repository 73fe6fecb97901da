// What a step sends, held against its plan.
#include "runtime/train/engine/plan_check.h"

#include "tests/support/catch.h"

namespace meshwork::plan_check_test {

namespace {

CollectiveRecord record(std::string_view collective, std::vector<Axis> axes, std::int64_t bytes) {
  CollectiveRecord made;
  made.collective = collective;
  made.axes = std::move(axes);
  made.bytes_sent = bytes;
  return made;
}

}  // namespace

TEST_CASE("records add up by operation and number of ranks") {
  const MeshShape mesh({{"data", 4}, {"model", 2}}, 8);
  const std::vector<Traffic> planned =
      planned_traffic({record("exchange", {0}, 12), record("all_to_all", {1}, 8),
                       record("all_to_all", {1}, 4), record("all_reduce", {0, 1}, 100),
                       record("all_reduce", {1}, 10), record("all_reduce", {1}, 20)},
                      mesh);
  CHECK(planned == std::vector<Traffic>{{"all_reduce", 2, 2, 30},
                                        {"all_reduce", 8, 1, 100},
                                        {"all_to_all", 2, 2, 12},
                                        {"exchange", 4, 1, 12}});
}

TEST_CASE("a step that sends what was planned passes, and any other is told with the differences") {
  const std::vector<Traffic> planned{{"all_reduce", 2, 2, 30}, {"all_gather", 4, 1, 64}};
  CHECK_NOTHROW(require_planned(planned, planned, "the step"));
  const std::vector<Traffic> sent{{"all_reduce", 2, 3, 46}, {"broadcast", 2, 1, 8}};
  CHECK_THROWS_WITH(require_planned(planned, sent, "the step of 8 rows (train)"),
                    "the step of 8 rows (train) sent messages that its plan lacks:\n  all_reduce "
                    "over 2 ranks: 2 with 30 bytes sent planned, 3 with 46 bytes sent counted\n  "
                    "all_gather over 4 ranks: 1 with 64 bytes sent planned, none counted\n  "
                    "broadcast over 2 ranks: none planned, 1 with 8 bytes sent counted");
}

}  // namespace meshwork::plan_check_test

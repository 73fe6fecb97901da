#include "runtime/graph/schedule.h"

#include <algorithm>

#include "tests/support/catch.h"

namespace meshwork::schedule_test {

namespace {

using Kind = Action::Kind;

std::vector<std::vector<Action>> all_stages(std::string_view schedule, std::int64_t stages,
                                            std::int64_t micro_batches) {
  std::vector<std::vector<Action>> all;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    all.push_back(actions_of(schedule, stages, stage, micro_batches));
  }
  return all;
}

// "F0 F1 B0".
std::string text_of(const std::vector<Action>& actions) {
  std::string text;
  for (const Action& action : actions) {
    text += (text.empty() ? "" : " ");
    text += (action.kind == Kind::forward ? "F" : "B") + std::to_string(action.micro_batch);
  }
  return text;
}

// How long the stages take together, where forward takes 1 and backward 2, and nothing else does.
std::int64_t duration(const std::vector<std::vector<Action>>& by_stage) {
  const std::size_t stages = by_stage.size(), micro_batches = by_stage[0].size() / 2;
  std::vector<std::vector<std::int64_t>> ends[2];
  for (auto& end : ends) end.assign(stages, std::vector<std::int64_t>(micro_batches, -1));
  std::vector<std::size_t> next(stages, 0);
  std::vector<std::int64_t> free(stages, 0);
  const std::size_t actions = 2 * micro_batches * stages;
  for (std::size_t done = 0; done < actions;) {
    for (std::size_t stage = 0; stage < stages; ++stage) {
      if (next[stage] == by_stage[stage].size()) continue;
      const auto [kind, batch] = by_stage[stage][next[stage]];
      const bool forward = kind == Kind::forward;
      std::int64_t ready = 0;
      if (forward && stage > 0) ready = ends[0][stage - 1][batch];
      if (!forward && stage + 1 < stages) ready = ends[1][stage + 1][batch];
      if (ready < 0) continue;
      free[stage] = std::max(free[stage], ready) + (forward ? 1 : 2);
      ends[forward ? 0 : 1][stage][batch] = free[stage];
      ++next[stage];
      ++done;
    }
  }
  return std::ranges::max(free);
}

}  // namespace

TEST_CASE("a stage goes forward and backward with each micro-batch once, backward in order") {
  for (const std::string& schedule : schedule_names()) {
    for (std::int64_t stages = 1; stages <= 8; ++stages) {
      for (std::int64_t micro_batches = 1; micro_batches <= 32; ++micro_batches) {
        for (const std::vector<Action>& actions : all_stages(schedule, stages, micro_batches)) {
          std::int64_t forward = 0, backward = 0;
          for (const Action& action : actions) {
            std::int64_t& next = action.kind == Kind::forward ? forward : backward;
            REQUIRE(action.micro_batch == next++);
            REQUIRE(backward <= forward);
          }
          REQUIRE(forward == micro_batches);
          REQUIRE(backward == micro_batches);
        }
      }
    }
  }
}

TEST_CASE("no schedule is stuck, whatever the number of stages and micro-batches") {
  for (const std::string& schedule : schedule_names()) {
    for (std::int64_t stages = 1; stages <= 8; ++stages) {
      for (std::int64_t micro_batches = 1; micro_batches <= 32; ++micro_batches) {
        INFO(schedule << ", " << stages << " stages, " << micro_batches << " micro-batches");
        REQUIRE(why_stuck(all_stages(schedule, stages, micro_batches)) == "");
      }
    }
  }
}

TEST_CASE("stages that wait for each other are told") {
  const Action f0{Kind::forward, 0}, f1{Kind::forward, 1}, b0{Kind::backward, 0},
      b1{Kind::backward, 1};
  CHECK(why_stuck({{f0, b0, f1, b1}, {f0, f1, b0, b1}}) ==
        "stage 0 waits to go backward with micro-batch 0; stage 1 waits to go forward with "
        "micro-batch 1");
}

TEST_CASE("1f1b fills the pipeline, takes turns and empties it") {
  CHECK(text_of(actions_of("1f1b", 3, 0, 4)) == "F0 F1 F2 B0 F3 B1 B2 B3");
  CHECK(text_of(actions_of("1f1b", 3, 1, 4)) == "F0 F1 B0 F2 B1 F3 B2 B3");
  CHECK(text_of(actions_of("1f1b", 3, 2, 4)) == "F0 B0 F1 B1 F2 B2 F3 B3");
  CHECK(text_of(actions_of("gpipe", 3, 1, 2)) == "F0 F1 B0 B1");
  CHECK(text_of(actions_of("in_turn", 3, 1, 2)) == "F0 B0 F1 B1");
}

TEST_CASE("schedules take the time and hold the micro-batches of their formulas") {
  for (std::int64_t stages = 1; stages <= 8; ++stages) {
    for (std::int64_t micro_batches = 1; micro_batches <= 16; ++micro_batches) {
      INFO(stages << " stages, " << micro_batches << " micro-batches");
      const std::int64_t ideal = 3 * micro_batches, bubble = 3 * (stages - 1);
      CHECK(duration(all_stages("gpipe", stages, micro_batches)) == ideal + bubble);
      CHECK(duration(all_stages("1f1b", stages, micro_batches)) == ideal + bubble);
      CHECK(duration(all_stages("in_turn", stages, micro_batches)) == ideal * stages);
      for (std::int64_t stage = 0; stage < stages; ++stage) {
        const auto held = [&](std::string_view schedule) {
          return most_held(actions_of(schedule, stages, stage, micro_batches));
        };
        CHECK(held("gpipe") == micro_batches);
        CHECK(held("1f1b") == std::min(stages - stage, micro_batches));
        CHECK(held("in_turn") == 1);
      }
    }
  }
}

TEST_CASE("a schedule that is not there is told, with the nearest") {
  CHECK_THROWS_WITH(actions_of("1f2b", 2, 0, 2), Catch::Contains("\"1f2b\"") &&
                                                     Catch::Contains("did you mean \"1f1b\"?"));
}

}  // namespace meshwork::schedule_test

#include "runtime/graph/schedule.h"

#include <algorithm>

#include "tests/support/catch.h"

namespace meshwork::schedule_test {

namespace {

using Kind = Action::Kind;

// Carries the actions of all stages out against a model of what they wait for: forward of the stage
// before, backward of the one behind, and that what was sent back was taken. "" if all end; else what
// each stage is stuck at.
std::string why_stuck(const std::vector<std::vector<Action>>& by_stage) {
  const std::size_t stages = by_stage.size();
  std::vector<std::size_t> next(stages, 0);
  // By stage: the micro-batches with which it has gone forward and backward.
  std::vector<std::vector<std::int64_t>> forward(stages), backward(stages);
  const auto has = [](const std::vector<std::int64_t>& list, std::int64_t micro_batch) {
    return std::ranges::find(list, micro_batch) != list.end();
  };
  // Whether a stage is in an action or behind it: then it takes what was sent to it.
  const auto has_begun = [&](std::size_t stage, Action action) {
    const auto found = std::ranges::find(by_stage[stage], action);
    return found != by_stage[stage].end() &&
           static_cast<std::size_t>(found - by_stage[stage].begin()) <= next[stage];
  };
  const auto can = [&](std::size_t stage, Action action) {
    if (action.kind == Kind::forward) {
      return stage == 0 || has(forward[stage - 1], action.micro_batch);
    }
    // What it has sent forward of this micro-batch, and back of those before, was taken.
    const bool taken_before =
        stage == 0 || std::ranges::all_of(backward[stage], [&](std::int64_t sent) {
          return has_begun(stage - 1, {Kind::backward, sent});
        });
    const bool came_back = stage + 1 == stages || has(backward[stage + 1], action.micro_batch);
    return taken_before && came_back && has(forward[stage], action.micro_batch);
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t stage = 0; stage < stages; ++stage) {
      while (next[stage] < by_stage[stage].size() && can(stage, by_stage[stage][next[stage]])) {
        const Action action = by_stage[stage][next[stage]++];
        auto& done = action.kind == Kind::forward ? forward : backward;
        done[stage].push_back(action.micro_batch);
        moved = true;
      }
    }
  }
  std::string stuck;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    if (next[stage] == by_stage[stage].size()) continue;
    const Action at = by_stage[stage][next[stage]];
    stuck += fmt::format("{}stage {} waits to go {} with micro-batch {}", stuck.empty() ? "" : "; ",
                         stage, at.kind == Kind::forward ? "forward" : "backward", at.micro_batch);
  }
  return stuck;
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

}  // namespace

TEST_CASE("a stage goes forward and backward with each micro-batch once, backward in order") {
  for (const std::string& schedule : schedule_names()) {
    for (std::int64_t stages = 1; stages <= 8; ++stages) {
      for (std::int64_t micro_batches = 1; micro_batches <= 32; ++micro_batches) {
        for (const std::vector<Action>& actions : actions_of_all(schedule, stages, micro_batches)) {
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
        REQUIRE(why_stuck(actions_of_all(schedule, stages, micro_batches)) == "");
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
      const std::vector<double> equal(static_cast<std::size_t>(stages), 3.0);
      const auto duration = [&](std::string_view schedule) {
        return duration_of(actions_of_all(schedule, stages, micro_batches), equal);
      };
      const auto ideal = static_cast<double>(3 * micro_batches);
      const auto bubble = static_cast<double>(3 * (stages - 1));
      CHECK(duration("gpipe") == ideal + bubble);
      CHECK(duration("1f1b") == ideal + bubble);
      CHECK(duration("in_turn") == ideal * static_cast<double>(stages));
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

TEST_CASE("the longest stage decides how long a pipeline takes") {
  // Behind its two forwards and two backwards come a forward and a backward of the other.
  CHECK(duration_of(actions_of_all("1f1b", 2, 2), {3, 6}) == 1 + 2 * 6 + 2);
}

TEST_CASE("a schedule that is not there is told, with the nearest") {
  CHECK_THROWS_WITH(actions_of("1f2b", 2, 0, 2),
                    Catch::Contains("\"1f2b\"") && Catch::Contains("did you mean \"1f1b\"?"));
}

}  // namespace meshwork::schedule_test

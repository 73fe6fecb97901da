#include "runtime/graph/schedule.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "runtime/graph/pipeline_schedules.h"
#include "tests/support/catch.h"

namespace meshwork::schedule_test {

namespace {

using Kind = Action::Kind;

// A message from one stage to another, of each micro-batch: a value goes forward, a gradient back.
struct Between {
  std::int64_t from, to;
};

// Carries the actions of all coordinates out against a model of what they wait for: messages that they
// need, and that those that they have sent back are being received. A rank begins to receive with the
// action before; it waits for a gradient that it has sent at the first action that, by the timeline,
// begins when the other side has begun. "" if all end; else what each coordinate is stuck at.
std::string why_stuck(const Actions& actions, const Pipeline& pipeline,
                      const std::vector<Between>& messages) {
  const std::size_t ranks = actions.size();
  const Timeline timeline =
      timeline_of(actions, std::vector<double>(static_cast<std::size_t>(pipeline.stages()), 1));
  const auto index = [&](std::int64_t stage, std::int64_t micro_batch) {
    return static_cast<std::size_t>(stage * pipeline.micro_batches + micro_batch);
  };
  const auto gives_back = [](const Action& action) {
    return action.kind == Kind::backward || action.kind == Kind::input_gradients;
  };
  const auto rank_of = [&](std::int64_t stage) { return static_cast<std::size_t>(stage) % ranks; };
  // By stage: those that it gets messages from, and those that it sends some to.
  const auto stages = static_cast<std::size_t>(pipeline.stages());
  std::vector<std::vector<std::int64_t>> sources(stages), targets(stages);
  for (const auto& [from, to] : messages) {
    sources[static_cast<std::size_t>(to)].push_back(from);
    targets[static_cast<std::size_t>(from)].push_back(to);
  }
  // By stage and micro-batch: what is done, and where in its rank's list a gradient is given back.
  const std::size_t all = index(pipeline.stages(), 0);
  std::vector<bool> forward(all, false), backward(all, false);
  std::vector<std::ptrdiff_t> back_at(all, 0);
  for (const std::vector<Action>& list : actions) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (!gives_back(list[i])) continue;
      back_at[index(list[i].stage, list[i].micro_batch)] = static_cast<std::ptrdiff_t>(i);
    }
  }
  std::vector<std::size_t> next(ranks, 0);
  const auto can = [&](std::size_t rank, const Action& action) {
    const auto& [kind, stage, micro_batch] = action;
    const bool goes_forward = kind == Kind::forward;
    if (kind == Kind::weight_gradients && !backward[index(stage, micro_batch)]) return false;
    if (gives_back(action) && !forward[index(stage, micro_batch)]) return false;
    for (const std::int64_t from : sources[static_cast<std::size_t>(stage)]) {
      if (goes_forward && !forward[index(from, micro_batch)]) return false;
    }
    for (const std::int64_t to : targets[static_cast<std::size_t>(stage)]) {
      if (gives_back(action) && !backward[index(to, micro_batch)]) return false;
    }
    for (std::size_t i = 0; i < next[rank] && !goes_forward; ++i) {
      const Action& before = actions[rank][i];
      if (!gives_back(before)) continue;
      for (const std::int64_t from : sources[static_cast<std::size_t>(before.stage)]) {
        if (rank_of(from) == rank) continue;
        const std::ptrdiff_t receives = back_at[index(from, before.micro_batch)];
        if (static_cast<std::ptrdiff_t>(next[rank_of(from)]) >= receives - 1) continue;
        const double taken =
            receives < 2 ? 0 : timeline.end[rank_of(from)][static_cast<std::size_t>(receives - 2)];
        if (taken <= timeline.begin[rank][next[rank]]) return false;  // else waited for later
      }
    }
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      while (next[rank] < actions[rank].size() && can(rank, actions[rank][next[rank]])) {
        const Action& action = actions[rank][next[rank]++];
        const std::size_t at = index(action.stage, action.micro_batch);
        if (action.kind == Kind::forward) forward[at] = true;
        if (gives_back(action)) backward[at] = true;
        moved = true;
      }
    }
  }
  std::string stuck;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (next[rank] == actions[rank].size()) continue;
    stuck += fmt::format("{}coordinate {} at {}", stuck.empty() ? "" : "; ", rank,
                         to_string(actions[rank][next[rank]]));
  }
  return stuck;
}

// "0F0 0F1 0B0".
std::string text_of(const std::vector<Action>& actions) {
  std::string text;
  for (const Action& action : actions) text += (text.empty() ? "" : " ") + to_string(action);
  return text;
}
std::string text_of(const PipelineSchedule& schedule, const Pipeline& pipeline, int coordinate) {
  return text_of(actions_of(schedule, pipeline)[static_cast<std::size_t>(coordinate)]);
}

const std::vector<PipelineSchedule> schedules{one_forward_one_backward(), gpipe(), zero_bubble(),
                                              in_turn()};

// Calls `check` with every pipeline of up to 8 ranks, 4 chunks and 32 micro-batches.
template <class Check>
void with_all(Check check) {
  for (const PipelineSchedule& schedule : schedules) {
    for (std::int64_t ranks = 1; ranks <= 8; ++ranks) {
      for (std::int64_t chunks = 1; chunks <= (schedule.name == "zero_bubble" ? 1 : 4); ++chunks) {
        for (std::int64_t micro_batches = 1; micro_batches <= 32; ++micro_batches) {
          INFO(schedule.name << ", " << ranks << " ranks of " << chunks << " stages, "
                             << micro_batches << " micro-batches");
          check(schedule, Pipeline{ranks, chunks, micro_batches});
        }
      }
    }
  }
}

// The list of "0F0 0B0" of each coordinate, as a schedule.
PipelineSchedule written(const std::vector<std::string>& lists) {
  return {"mine", [lists](const Pipeline&, std::int64_t coordinate) {
            std::vector<Action> actions;
            std::istringstream words(lists[static_cast<std::size_t>(coordinate)]);
            for (std::string word; words >> word;) actions.push_back(action_of(word));
            return actions;
          }};
}

}  // namespace

TEST_CASE("a stage goes forward and backward with each micro-batch once, in ascending order") {
  // The first action that is not as it has to be, or "".
  const auto wrong = [](const std::vector<Action>& actions, const Pipeline& pipeline,
                        std::int64_t coordinate) -> std::string {
    std::map<std::int64_t, std::array<std::int64_t, 3>> next;  // by stage: F, B or I, W
    for (const Action& action : actions) {
      auto& [forward, backward, weights] = next[action.stage];
      std::int64_t& own = action.kind == Kind::forward            ? forward
                          : action.kind == Kind::weight_gradients ? weights
                                                                  : backward;
      const bool is_next = action.micro_batch == own++;
      if (action.kind == Kind::backward) ++weights;
      if (!is_next || action.stage % pipeline.ranks != coordinate || backward > forward ||
          weights > backward) {
        return to_string(action);
      }
    }
    if (std::ssize(next) != pipeline.chunks) return "other stages than its own";
    for (const auto& [stage, counts] : next) {
      for (const std::int64_t count : counts) {
        if (count != pipeline.micro_batches)
          return fmt::format("stage {} has too few or too many", stage);
      }
    }
    return "";
  };
  with_all([&](const PipelineSchedule& schedule, const Pipeline& pipeline) {
    for (std::int64_t coordinate = 0; coordinate < pipeline.ranks; ++coordinate) {
      REQUIRE(wrong(schedule.list(pipeline, coordinate), pipeline, coordinate) == "");
    }
  });
}

TEST_CASE("no schedule is stuck, whatever the number of stages and micro-batches") {
  with_all([](const PipelineSchedule& schedule, const Pipeline& pipeline) {
    Actions actions;
    REQUIRE_NOTHROW(actions = actions_of(schedule, pipeline));
    // A chain; values that skip stages; and no more than one that goes from the first to the last.
    const std::int64_t stages = pipeline.stages();
    std::vector<Between> chain, skips;
    for (std::int64_t stage = 1; stage < stages; ++stage) {
      chain.push_back({stage - 1, stage});
      if (stage % 2 == 1) skips.push_back({stage / 3, stage});
    }
    REQUIRE(why_stuck(actions, pipeline, chain) == "");
    skips.insert(skips.end(), chain.begin(), chain.end());
    REQUIRE(why_stuck(actions, pipeline, skips) == "");
    if (stages > 1) REQUIRE(why_stuck(actions, pipeline, {{0, stages - 1}}) == "");
  });
}

TEST_CASE("a model of messages finds ranks that wait for each other") {
  const Actions actions{{{Kind::forward, 0, 0}, {Kind::backward, 0, 0}, {Kind::forward, 0, 1}},
                        {{Kind::forward, 1, 1}, {Kind::forward, 1, 0}, {Kind::backward, 1, 0}}};
  CHECK(why_stuck(actions, {2, 1, 2}, {{0, 1}}) == "coordinate 0 at 0B0; coordinate 1 at 1F1");
}

TEST_CASE("a list of actions that cannot be is refused, with the first that is wrong") {
  const auto check = [](const std::vector<std::string>& lists, const Pipeline& pipeline,
                        const std::string& message) {
    CHECK_THROWS_WITH(actions_of(written(lists), pipeline), Catch::Contains(message));
  };
  const Pipeline two{2, 1, 2};
  CHECK_NOTHROW(actions_of(written({"0F0 0F1 0I0 0W0 0B1", "1F0 1B0 1F1 1B1"}), two));
  check({"0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"}, two,
        "mine: coordinates wait for ever: coordinate 0 for what 0B0 needs, coordinate 1 for what "
        "1F1");
  check({"0F0 0F1 0B0", "1F0 1B0 1F1 1B1"}, two,
        "coordinate 0 lacks B, or I and W, with stage 0 and micro-batch 1");
  check({"0F0 0F1 0I0 0I1 0W0", "1F0 1B0 1F1 1B1"}, two, "lacks W with stage 0 and micro-batch 1");
  check({"0F0 0F1 0B1 0B0", "1F0 1B0 1F1 1B1"}, two,
        "action 2 of coordinate 0, 0B1: expected micro-batch 0");
  check({"0F0 0F1 0B0 0B1", "0F0 1B0 1F1 1B1"}, two, "0F0: stage 0 is at coordinate 0");
  check({"0F0 0F1 0B0 0B1 0F0", "1F0"}, two, "0F0: that is done");
  check({"2F0", "1F0"}, two, "there are stages 0 to 1");
  check({"0F2", "1F0"}, two, "there are micro-batches 0 to 1");
  check({"0F0 0F1 0I0 0I1 0W0 0W1 0B1", ""}, two, "0B1: that is done");
  for (const char* const text : {"", "F0", "0F", "0X0", "0F-1", "0F0 ", "0FF0"}) {
    CHECK_THROWS_WITH(action_of(text), Catch::Contains("expected an action, such as 2F0"));
  }
}

// What came out once, and was compared with the figures of the papers.
TEST_CASE("1f1b fills the pipeline, takes turns and empties it") {
  const PipelineSchedule schedule = one_forward_one_backward();
  const Pipeline three{3, 1, 4};
  CHECK(text_of(schedule, three, 0) == "0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3");
  CHECK(text_of(schedule, three, 1) == "1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3");
  CHECK(text_of(schedule, three, 2) == "2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3");
  CHECK(text_of(gpipe(), {3, 1, 2}, 1) == "1F0 1F1 1B0 1B1");
  CHECK(text_of(in_turn(), {3, 1, 2}, 1) == "1F0 1B0 1F1 1B1");
  CHECK(text_of(in_turn(), {2, 2, 1}, 1) == "1F0 3F0 3B0 1B0");
}

TEST_CASE("interleaved 1f1b takes a micro-batch round the axis") {
  const PipelineSchedule schedule = one_forward_one_backward();
  CHECK(text_of(schedule, {2, 2, 4}, 0) ==
        "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3");
  CHECK(text_of(schedule, {2, 2, 4}, 1) ==
        "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3");
}

TEST_CASE(
    "a schedule of zero bubbles puts off gradients of weights, the more the later the stage") {
  CHECK(text_of(zero_bubble(), {3, 1, 4}, 0) == "0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3");
  CHECK(text_of(zero_bubble(), {3, 1, 4}, 2) == "2F0 2I0 2F1 2I1 2F2 2I2 2W0 2F3 2I3 2W1 2W2 2W3");
  CHECK_THROWS_WITH(actions_of(zero_bubble(), {2, 2, 2}),
                    Catch::Contains("expected one stage at each coordinate, found chunks: 2"));
}

TEST_CASE("schedules take the time and hold the micro-batches of their formulas") {
  for (std::int64_t p = 1; p <= 8; ++p) {
    for (std::int64_t m = 1; m <= 32; ++m) {
      INFO(p << " ranks, " << m << " micro-batches");
      const auto duration = [&](const PipelineSchedule& schedule, std::int64_t chunks) {
        // A rank takes 12 seconds for a micro-batch.
        const std::vector<double> equal(static_cast<std::size_t>(p * chunks),
                                        12 / static_cast<double>(chunks));
        return duration_of(actions_of(schedule, {p, chunks, m}), equal);
      };
      const auto ideal = static_cast<double>(12 * m);
      const auto bubble = static_cast<double>(12 * (p - 1));
      CHECK(duration(gpipe(), 1) == ideal + bubble);
      CHECK(duration(one_forward_one_backward(), 1) == ideal + bubble);
      CHECK(duration(in_turn(), 1) == ideal * static_cast<double>(p));
      CHECK(duration(in_turn(), 2) == ideal * static_cast<double>(p));
      if (m >= 2 * p) CHECK(duration(zero_bubble(), 1) == Approx(ideal + bubble / 3));
      for (const std::int64_t v : {2, 3, 4}) {
        if (m % p != 0) continue;
        CHECK(duration(one_forward_one_backward(), v) ==
              Approx(ideal + bubble / static_cast<double>(v)));
      }
      for (std::int64_t i = 0; i < p; ++i) {
        const auto held = [&](const PipelineSchedule& schedule, std::int64_t chunks) {
          return most_held(schedule.list({p, chunks, m}, i));
        };
        CHECK(held(gpipe(), 1) == m);
        CHECK(held(one_forward_one_backward(), 1) == std::min(p - i, m));
        CHECK(held(zero_bubble(), 1) == std::min(p, m));
        CHECK(held(in_turn(), 1) == 1);
        CHECK(held(one_forward_one_backward(), 2) <= std::min(2 * p + p - 1, 2 * m));
      }
    }
  }
}

TEST_CASE("the longest stage decides how long a pipeline takes") {
  // Behind its two forwards and two backwards come a forward and a backward of the other.
  CHECK(duration_of(actions_of(one_forward_one_backward(), {2, 1, 2}), {3, 6}) == 1 + 2 * 6 + 2);
  CHECK(duration_of({{{Kind::backward, 0, 0}}}, {1}) < 0);
}

TEST_CASE("a file lists the actions of each coordinate") {
  const std::filesystem::path file = "actions.csv";
  const auto write = [&](const std::string& text) { std::ofstream(file) << text; };
  write("0F0, 0F1,,0I0,0W0 ,0B1\r\n1F0,1B0,1F1,1B1\n\n");
  CHECK(text_of(listed_actions(file), {2, 1, 2}, 0) == "0F0 0F1 0I0 0W0 0B1");
  CHECK(text_of(listed_actions(file), {2, 1, 2}, 1) == "1F0 1B0 1F1 1B1");
  // Of a short batch with a single micro-batch, the others' actions are left out.
  CHECK(text_of(listed_actions(file), {2, 1, 1}, 1) == "1F0 1B0");
  CHECK_THROWS_WITH(actions_of(listed_actions(file), {3, 1, 2}),
                    Catch::Contains("lists the actions of 2 coordinates, the axis has 3"));
  const std::string name = listed_actions(file).name;
  write("0F0,0B0\n1F0,1B0\n");
  CHECK(listed_actions(file).name != name);
  write("\n");
  CHECK_THROWS_WITH(listed_actions(file), Catch::Contains("actions.csv lists no actions"));
  CHECK_THROWS_WITH(listed_actions("."), Catch::Contains("cannot be read"));
  write("0F0\n1F0,1X0\n");
  CHECK_THROWS_WITH(listed_actions(file), Catch::Contains("actions.csv:2: expected an action") &&
                                              Catch::Contains("found \"1X0\""));
  std::filesystem::remove(file);
  CHECK_THROWS_WITH(listed_actions(file), Catch::Contains("actions.csv cannot be read"));
}

}  // namespace meshwork::schedule_test

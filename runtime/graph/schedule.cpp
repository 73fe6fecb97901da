#include "runtime/graph/schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "collectives/error.h"
#include "runtime/config/nearest.h"

namespace meshwork {
namespace {

using Kind = Action::Kind;

// `ahead` micro-batches go forward before the first goes backward.
std::vector<Action> with_ahead(std::int64_t ahead, std::int64_t micro_batches) {
  std::vector<Action> actions;
  std::int64_t forward = 0;
  for (std::int64_t backward = 0; backward < micro_batches; ++backward) {
    while (forward < std::min(backward + ahead, micro_batches)) {
      actions.push_back({Kind::forward, forward++});
    }
    actions.push_back({Kind::backward, backward});
  }
  return actions;
}

}  // namespace

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names{"in_turn", "gpipe", "1f1b"};
  return names;
}

std::vector<Action> actions_of(std::string_view schedule, std::int64_t stages, std::int64_t stage,
                               std::int64_t micro_batches) {
  if (schedule == "in_turn") return with_ahead(1, micro_batches);
  if (schedule == "gpipe") return with_ahead(micro_batches, micro_batches);
  if (schedule == "1f1b") return with_ahead(stages - stage, micro_batches);
  fail("there is no schedule \"{}\"; there are {}{}", schedule, quoted_list(schedule_names()),
       did_you_mean(schedule, schedule_names()));
}

std::int64_t most_held(const std::vector<Action>& actions) {
  std::int64_t held = 0, most = 0;
  for (const Action& action : actions) {
    held += action.kind == Kind::forward ? 1 : -1;
    most = std::max(most, held);
  }
  return most;
}

std::vector<std::vector<Action>> actions_of_all(std::string_view schedule, std::int64_t stages,
                                                std::int64_t micro_batches) {
  std::vector<std::vector<Action>> all;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    all.push_back(actions_of(schedule, stages, stage, micro_batches));
  }
  return all;
}

double duration_of(const std::vector<std::vector<Action>>& by_stage,
                   const std::vector<double>& seconds) {
  const std::size_t stages = by_stage.size();
  // By stage and micro-batch: when its forward and its backward end. Below 0: it is not known.
  std::vector<std::vector<double>> forward(stages), backward(stages);
  std::vector<double> free(stages, 0);
  std::vector<std::size_t> next(stages, 0);
  for (std::size_t stage = 0; stage < stages; ++stage) {
    forward[stage].assign(by_stage[stage].size(), -1);
    backward[stage].assign(by_stage[stage].size(), -1);
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t stage = 0; stage < stages; ++stage) {
      while (next[stage] < by_stage[stage].size()) {
        const auto [kind, micro_batch] = by_stage[stage][next[stage]];
        const auto batch = static_cast<std::size_t>(micro_batch);
        const bool goes_forward = kind == Kind::forward;
        double ready = 0;
        if (goes_forward && stage > 0) ready = forward[stage - 1][batch];
        if (!goes_forward && stage + 1 < stages) ready = backward[stage + 1][batch];
        if (ready < 0) break;
        free[stage] = std::max(free[stage], ready) + seconds[stage] * (goes_forward ? 1 : 2) / 3;
        (goes_forward ? forward : backward)[stage][batch] = free[stage];
        ++next[stage];
        moved = true;
      }
    }
  }
  return std::ranges::max(free);
}

std::string why_stuck(const std::vector<std::vector<Action>>& by_stage) {
  const std::size_t stages = by_stage.size();
  std::vector<std::size_t> next(stages, 0);
  // By stage: the micro-batches with which it has gone forward and backward, and those whose
  // messages it has begun to receive.
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

}  // namespace meshwork

#include "runtime/graph/schedule.h"

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

struct Schedule {
  std::string_view name;
  /// How far forward may be ahead of backward: by the stages from this one on, and micro-batches.
  std::int64_t (*ahead)(std::int64_t stages_from_here, std::int64_t micro_batches);
};

constexpr Schedule schedules[] = {
    {"1f1b", [](std::int64_t stages, std::int64_t) { return stages; }},
    {"gpipe", [](std::int64_t, std::int64_t micro_batches) { return micro_batches; }},
    {"in_turn", [](std::int64_t, std::int64_t) { return std::int64_t{1}; }},
};

}  // namespace

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Schedule& schedule : schedules) all.emplace_back(schedule.name);
    return all;
  }();
  return names;
}

std::vector<Action> actions_of(std::string_view schedule, std::int64_t stages, std::int64_t stage,
                               std::int64_t micro_batches) {
  const auto found = std::ranges::find(schedules, schedule, &Schedule::name);
  if (found == std::end(schedules)) {
    fail("there is no schedule \"{}\"; there are {}{}", schedule, quoted_list(schedule_names()),
         did_you_mean(schedule, schedule_names()));
  }
  return with_ahead(found->ahead(stages - stage, micro_batches), micro_batches);
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

}  // namespace meshwork

#include "runtime/graph/schedule.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "collectives/error.h"
#include "collectives/printable.h"

namespace meshwork {
namespace {

using Kind = Action::Kind;

constexpr std::string_view letters = "FBIW";  // by kind

// Carries all actions out.
class Simulation {
 public:
  Simulation(const Actions& actions, const std::vector<double>& seconds)
      : actions_(actions), seconds_(seconds) {
    std::int64_t batches = 0;
    for (const std::vector<Action>& list : actions) {
      for (const Action& action : list) batches = std::max(batches, action.micro_batch + 1);
    }
    const std::vector<double> never(static_cast<std::size_t>(batches), -1);
    forward_.assign(seconds.size(), never);
    backward_.assign(seconds.size(), never);
    timeline_.begin.resize(actions.size());
    timeline_.end.resize(actions.size());
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < actions.size(); ++rank) {
        while (carry_out(rank)) moved = true;
      }
    }
  }

  [[nodiscard]] const Timeline& timeline() const { return timeline_; }

 private:
  // When what an action waits for has ended. Below 0: it has not.
  [[nodiscard]] double ready(const Action& action) const {
    const auto stage = static_cast<std::size_t>(action.stage);
    const auto batch = static_cast<std::size_t>(action.micro_batch);
    switch (action.kind) {
      case Kind::forward:
        return stage == 0 ? 0 : forward_[stage - 1][batch];
      case Kind::weight_gradients:
        return backward_[stage][batch];
      case Kind::backward:
      case Kind::input_gradients:
        if (forward_[stage][batch] < 0) return -1;
        return stage + 1 < backward_.size() ? backward_[stage + 1][batch] : 0;
    }
    return -1;
  }

  bool carry_out(std::size_t rank) {
    const std::size_t next = timeline_.end[rank].size();
    if (next == actions_[rank].size()) return false;
    const Action& action = actions_[rank][next];
    const double from = ready(action);
    if (from < 0) return false;
    const auto stage = static_cast<std::size_t>(action.stage);
    const auto batch = static_cast<std::size_t>(action.micro_batch);
    const double begin = next == 0 ? from : std::max(from, timeline_.end[rank].back());
    const double end = begin + seconds_[stage] * (action.kind == Kind::backward ? 2 : 1) / 3;
    timeline_.begin[rank].push_back(begin);
    timeline_.end[rank].push_back(end);
    if (action.kind == Kind::forward) {
      forward_[stage][batch] = end;
    } else if (action.kind != Kind::weight_gradients) {
      backward_[stage][batch] = end;
    }
    return true;
  }

  const Actions& actions_;
  const std::vector<double>& seconds_;
  Timeline timeline_;
  std::vector<std::vector<double>> forward_, backward_;  // by stage and micro-batch: when they end
};

// Throws `Error` unless these are the actions of one coordinate.
void check_list(const std::vector<Action>& actions, const Pipeline& pipeline,
                std::int64_t coordinate, const std::string& who) {
  // By stage: the next micro-batch to go forward, to go backward, and to give gradients of weights.
  struct Next {
    std::int64_t forward = 0, backward = 0, weights = 0;
  };
  std::vector<Next> next(static_cast<std::size_t>(pipeline.stages()));
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    const auto refuse = [&](const std::string& why) {
      fail("{}: action {} of coordinate {}, {}: {}", who, i, coordinate, to_string(action), why);
    };
    if (action.stage < 0 || action.stage >= pipeline.stages()) {
      refuse(fmt::format("there are stages 0 to {}", pipeline.stages() - 1));
    }
    if (action.stage % pipeline.ranks != coordinate) {
      refuse(
          fmt::format("stage {} is at coordinate {}", action.stage, action.stage % pipeline.ranks));
    }
    if (action.micro_batch < 0 || action.micro_batch >= pipeline.micro_batches) {
      refuse(fmt::format("there are micro-batches 0 to {}", pipeline.micro_batches - 1));
    }
    auto& [forward, backward, weights] = next[static_cast<std::size_t>(action.stage)];
    std::int64_t& own = action.kind == Kind::forward            ? forward
                        : action.kind == Kind::weight_gradients ? weights
                                                                : backward;
    if (action.micro_batch != own) {
      refuse(
          own == pipeline.micro_batches
              ? "that is done"
              : fmt::format("expected micro-batch {}, since a stage takes them in ascending order",
                            own));
    }
    ++own;
    if (action.kind == Kind::backward) {
      if (weights != action.micro_batch) {
        refuse(fmt::format("W of micro-batch {} comes first", weights));
      }
      ++weights;
    }
  }
  for (std::int64_t stage = coordinate; stage < pipeline.stages(); stage += pipeline.ranks) {
    const auto& [forward, backward, weights] = next[static_cast<std::size_t>(stage)];
    const std::int64_t least = std::min({forward, backward, weights});
    if (least == pipeline.micro_batches) continue;
    fail("{}: coordinate {} lacks {} with stage {} and micro-batch {}", who, coordinate,
         least == forward    ? "F"
         : least == backward ? "B, or I and W,"
                             : "W",
         stage, least);
  }
}

}  // namespace

std::string to_string(const Action& action) {
  return fmt::format("{}{}{}", action.stage, letters[static_cast<std::size_t>(action.kind)],
                     action.micro_batch);
}

Action action_of(const std::string& text) {
  const std::size_t at = text.find_first_of(letters);
  const auto number = [&](std::string_view digits) {
    std::int64_t value = -1;
    const char* const end = digits.data() + digits.size();
    const auto [stopped, error] = std::from_chars(digits.data(), end, value);
    if (error != std::errc() || stopped != end || value < 0) {
      fail("expected an action, such as 2F0, with one of the letters F, B, I and W; found \"{}\"",
           printable(text));
    }
    return value;
  };
  const std::string_view all = text;
  const std::int64_t stage = number(all.substr(0, at));
  return {static_cast<Kind>(letters.find(text[at])), stage, number(all.substr(at + 1))};
}

void check_chunks(const PipelineSchedule& schedule, std::int64_t chunks) {
  if (schedule.takes_chunks || chunks == 1) return;
  fail("{}: expected one stage at each coordinate, found chunks: {}", schedule.name, chunks);
}

Actions actions_of(const PipelineSchedule& schedule, const Pipeline& pipeline) {
  check_chunks(schedule, pipeline.chunks);
  Actions actions;
  for (std::int64_t coordinate = 0; coordinate < pipeline.ranks; ++coordinate) {
    actions.push_back(schedule.list(pipeline, coordinate));
    check_list(actions.back(), pipeline, coordinate, schedule.name);
  }
  const std::vector<double> equal(static_cast<std::size_t>(pipeline.stages()), 1);
  const Timeline timeline = timeline_of(actions, equal);
  std::string stuck;
  for (std::size_t rank = 0; rank < actions.size(); ++rank) {
    const std::size_t next = timeline.end[rank].size();
    if (next == actions[rank].size()) continue;
    stuck += fmt::format("{}coordinate {} for what {} needs", stuck.empty() ? "" : ", ", rank,
                         to_string(actions[rank][next]));
  }
  if (!stuck.empty()) fail("{}: coordinates wait for ever: {}", schedule.name, stuck);
  return actions;
}

Timeline timeline_of(const Actions& actions, const std::vector<double>& seconds) {
  return Simulation(actions, seconds).timeline();
}

std::int64_t most_held(const std::vector<Action>& actions) {
  std::int64_t held = 0, most = 0;
  for (const Action& action : actions) {
    if (action.kind == Kind::forward) ++held;
    if (action.kind == Kind::backward || action.kind == Kind::weight_gradients) --held;
    most = std::max(most, held);
  }
  return most;
}

double duration_of(const Actions& actions, const std::vector<double>& seconds) {
  const Timeline timeline = timeline_of(actions, seconds);
  double longest = 0;
  for (std::size_t rank = 0; rank < actions.size(); ++rank) {
    const std::vector<double>& end = timeline.end[rank];
    if (end.size() < actions[rank].size()) return -1;
    if (!end.empty()) longest = std::max(longest, end.back());
  }
  return longest;
}

}  // namespace meshwork

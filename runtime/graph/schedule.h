// Schedules: in which order the stages of a pipeline walk through the micro-batches of a step.
//
// A stage is the part of a model at one coordinate of an axis (placement.h). Values go forward along
// the axis and gradients back, so that a stage can go forward with a micro-batch when the stage before
// has, and backward when the one behind has. A *schedule* is, for each stage, its list of actions. A
// step books them in that order; nothing is decided while it runs.
//
// Every schedule goes backward through micro-batches in ascending order. So sums of gradients, and all
// else, are the same bits in all of them, and without stages.
//
// `in_turn` takes one micro-batch after the other, forward and backward. One stage works at a time.
//
// `gpipe` goes forward with all of them, then backward (Huang et al., arXiv:1811.06965).
//
// `1f1b` goes forward until the pipeline is full, then forward and backward in turns, then backward
// with the rest (Narayanan et al., arXiv:1806.03377). It is as fast. A stage holds at most as many
// micro-batches as there are stages from it on.
//
// With p stages that take equally long and m micro-batches, a rank is idle for (p - 1) / m of the time
// that it works, in the last two.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace meshwork {

struct Action {
  enum class Kind : std::uint8_t { forward, backward };
  Kind kind = Kind::forward;
  std::int64_t micro_batch = 0;
  bool operator==(const Action&) const = default;
};

/// The names of schedules, the default first.
[[nodiscard]] const std::vector<std::string>& schedule_names();

/// What stage `stage` of `stages` does with so many micro-batches. Throws `Error` for a name that is
/// no schedule's.
[[nodiscard]] std::vector<Action> actions_of(std::string_view schedule, std::int64_t stages,
                                             std::int64_t stage, std::int64_t micro_batches);

/// The same of all stages.
[[nodiscard]] std::vector<std::vector<Action>> actions_of_all(std::string_view schedule,
                                                              std::int64_t stages,
                                                              std::int64_t micro_batches);

/// How many micro-batches these actions hold at once between forward and backward.
[[nodiscard]] std::int64_t most_held(const std::vector<Action>& actions);

/// How long these actions take together, where stage i takes `seconds[i]` for a micro-batch, a third of
/// it forward, and messages no time.
[[nodiscard]] double duration_of(const std::vector<std::vector<Action>>& by_stage,
                                 const std::vector<double>& seconds);

}  // namespace meshwork

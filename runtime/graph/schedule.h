// Schedules: in which order the stages of a pipeline walk through the micro-batches of a step.
//
// A *stage* is a part of a model. Values go forward from stage to stage and gradients back. So a stage
// can go forward with a micro-batch when the stage before has, and backward when the one behind has. The
// axis of a pipeline has one stage at each coordinate, or several, its *chunks*: of P coordinates,
// coordinate c has the stages c, P + c, 2 P + c and so on. Then a micro-batch goes round the axis.
//
// A *schedule* is a list of *actions* for each coordinate. An action names what is done, a stage and a
// micro-batch. As PyTorch writes them:
//     2F0  forward of micro-batch 0 in stage 2
//     2B0  backward
//     2I0  of backward what other stages wait for: the gradients of inputs
//     2W0  the rest of it: gradients of weights
// A step books them in that order. Nothing is decided while it runs.
//
// Every schedule goes through the micro-batches of a stage in ascending order, forward and backward. So
// sums of gradients, and all else, are the same bits in all of them, and without stages.
//
// A set of schedules is open: a schedule is a function, and a class of the catalog. Those that Meshwork
// has are in pipeline_schedules.h.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/config/catalog.h"

namespace meshwork {

struct Action {
  enum class Kind : std::uint8_t { forward, backward, input_gradients, weight_gradients };
  Kind kind = Kind::forward;
  std::int64_t stage = 0;
  std::int64_t micro_batch = 0;
  bool operator==(const Action&) const = default;
};
/// "2F0".
[[nodiscard]] std::string to_string(const Action& action);
/// Throws `Error` for other text.
[[nodiscard]] Action action_of(const std::string& text);

/// What a schedule is for.
struct Pipeline {
  std::int64_t ranks = 1;   // coordinates of the axis
  std::int64_t chunks = 1;  // stages of each
  std::int64_t micro_batches = 1;
  [[nodiscard]] std::int64_t stages() const { return ranks * chunks; }
  auto operator<=>(const Pipeline&) const = default;
};

/// By coordinate.
using Actions = std::vector<std::vector<Action>>;

struct PipelineSchedule {
  std::string name;  // tells it from others: class, options, and what a file says
  std::function<std::vector<Action>(const Pipeline& pipeline, std::int64_t coordinate)> list;
  bool takes_chunks = true;  // several stages at each coordinate
  bool operator==(const PipelineSchedule& other) const { return name == other.name; }
  auto operator<=>(const PipelineSchedule& other) const { return name <=> other.name; }
};
template <>
struct KindOf<PipelineSchedule> {
  static constexpr const char* word = "pipeline";
  static constexpr const char* article = "a schedule of a pipeline, such as 1f1b";
};
[[nodiscard]] inline std::string to_text(const PipelineSchedule& schedule) {
  return schedule.name;
}

/// Throws `Error` if `schedule` is not for so many stages at each coordinate, on any mesh.
void check_chunks(const PipelineSchedule& schedule, std::int64_t chunks);

/// The actions of `schedule`. Throws `Error` that names the first that is wrong: each stage goes forward
/// and backward once with each micro-batch, at its coordinate, in ascending order; and no stage waits
/// for ever.
[[nodiscard]] Actions actions_of(const PipelineSchedule& schedule, const Pipeline& pipeline);

/// When actions begin and end, by coordinate and index: each as soon as what it waits for has ended.
struct Timeline {
  std::vector<std::vector<double>> begin, end;
};
/// Of these actions, where stage i takes `seconds[i]` for a micro-batch, a third each for forward,
/// gradients of inputs and gradients of weights, and messages take no time. Shorter than the actions
/// where some wait for ever.
[[nodiscard]] Timeline timeline_of(const Actions& actions, const std::vector<double>& seconds);

/// How many micro-batches these actions hold at once between forward and backward; of several stages,
/// together.
[[nodiscard]] std::int64_t most_held(const std::vector<Action>& actions);

/// How long these actions take together, as timeline_of says. Below 0: some wait for ever.
[[nodiscard]] double duration_of(const Actions& actions, const std::vector<double>& seconds);

}  // namespace meshwork

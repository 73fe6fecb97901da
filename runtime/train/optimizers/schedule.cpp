#include "runtime/train/optimizers/schedule.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "collectives/error.h"
#include "runtime/train/from_config.h"

namespace meshwork {
namespace {

void check_rate(double rate, const std::string& what) {
  if (!(std::isfinite(rate) && rate >= 0)) {
    fail("{}: expected a finite number that is not negative, found {}", what, rate);
  }
  if (rate > std::numeric_limits<float>::max()) {
    fail("{}: {} is more than float32 holds, in which parameters are updated", what, rate);
  }
}

void check_steps(std::int64_t steps, const std::string& what) {
  if (steps < 1) {
    fail("{}: expected a positive number of steps, found {}", what, steps);
  }
}

}  // namespace

template <class Visitor>
void describe(CosineDecayOptions& options, Visitor& option) {
  option.required("initial_learning_rate", options.initial_learning_rate, finite_not_negative,
                  "the rate of the first iteration");
  option.required("decay_steps", options.decay_steps, positive, "iterations of the decay");
  option("alpha", options.alpha, finite_not_negative, "part of the rate that is left at the end");
  option("warmup_target", options.warmup_target, finite_not_negative,
         "the rate that a warm-up rises to");
  option("warmup_steps", options.warmup_steps, at_least(0), "iterations of the warm-up");
}

template <class Visitor>
void describe(PiecewiseConstantDecayOptions& options, Visitor& option) {
  option.required("boundaries", options.boundaries, "last iterations of each rate but the last");
  option.required("values", options.values, finite_not_negative, "the rates");
}

template <class Visitor>
void describe(ExponentialDecayOptions& options, Visitor& option) {
  option.required("initial_learning_rate", options.initial_learning_rate, finite_not_negative,
                  "the rate of the first iteration");
  option.required("decay_steps", options.decay_steps, positive, "iterations of one decay");
  option.required("decay_rate", options.decay_rate, finite_positive,
                  "what the rate becomes in them");
  option("staircase", options.staircase, "decay at once, at their end");
}

Schedule::Schedule(double rate) : name_(fmt::format("{}", rate)), constant_(rate) {
  check_rate(rate, "learning rate");
}

Schedule::Schedule(std::string name, std::function<double(std::int64_t)> rate, std::string options)
    : name_(std::move(name)), options_(std::move(options)), function_(std::move(rate)) {
  if (!function_) {
    fail("schedule {}: there is no function", name_);
  }
}

double Schedule::at(std::int64_t iteration) const {
  if (is_constant()) {
    return constant_;
  }
  const double rate = function_(iteration);
  if (!(std::isfinite(rate) && rate >= 0)) {
    fail("schedule {}: the learning rate of iteration {} is {}", name_, iteration, rate);
  }
  return rate;
}

Schedule CosineDecay(const CosineDecayOptions& options) {
  check_rate(options.initial_learning_rate, "CosineDecay: initial_learning_rate");
  check_rate(options.alpha, "CosineDecay: alpha");
  check_steps(options.decay_steps, "CosineDecay: decay_steps");
  if (options.warmup_target) {
    check_rate(*options.warmup_target, "CosineDecay: warmup_target");
    if (options.warmup_steps < 0) {
      fail("CosineDecay: warmup_steps: expected a number that is not negative, found {}",
           options.warmup_steps);
    }
  } else if (options.warmup_steps != 0) {
    fail("CosineDecay: warmup_steps is {}, but there is no warmup_target to rise to",
         options.warmup_steps);
  }
  return {"CosineDecay",
          [o = options](std::int64_t iteration) {
            double from = o.initial_learning_rate;
            std::int64_t step = iteration;
            if (o.warmup_target) {
              if (iteration < o.warmup_steps) {
                const double done =
                    static_cast<double>(iteration) / static_cast<double>(o.warmup_steps);
                return from + (*o.warmup_target - from) * done;
              }
              from = *o.warmup_target;
              step = iteration - o.warmup_steps;
            }
            const double done = static_cast<double>(std::min(step, o.decay_steps)) /
                                static_cast<double>(o.decay_steps);
            const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * done));
            return from * ((1 - o.alpha) * cosine + o.alpha);
          },
          fmt::format("initial_learning_rate {}, decay_steps {}, alpha {}, warmup_target {}, "
                      "warmup_steps {}",
                      options.initial_learning_rate, options.decay_steps, options.alpha,
                      options.warmup_target ? fmt::format("{}", *options.warmup_target) : "none",
                      options.warmup_steps)};
}

Schedule PiecewiseConstantDecay(const PiecewiseConstantDecayOptions& options) {
  if (options.values.size() != options.boundaries.size() + 1) {
    fail("PiecewiseConstantDecay: {} boundaries need {} values, found {}",
         options.boundaries.size(), options.boundaries.size() + 1, options.values.size());
  }
  for (std::size_t i = 1; i < options.boundaries.size(); ++i) {
    if (options.boundaries[i] <= options.boundaries[i - 1]) {
      fail("PiecewiseConstantDecay: boundaries have to increase, found {} after {}",
           options.boundaries[i], options.boundaries[i - 1]);
    }
  }
  for (const double value : options.values) {
    check_rate(value, "PiecewiseConstantDecay: values");
  }
  return {"PiecewiseConstantDecay",
          [o = options](std::int64_t iteration) {
            const auto next = std::lower_bound(o.boundaries.begin(), o.boundaries.end(), iteration);
            return o.values[static_cast<std::size_t>(next - o.boundaries.begin())];
          },
          fmt::format("boundaries [{}], values [{}]", fmt::join(options.boundaries, ", "),
                      fmt::join(options.values, ", "))};
}

Schedule ExponentialDecay(const ExponentialDecayOptions& options) {
  check_rate(options.initial_learning_rate, "ExponentialDecay: initial_learning_rate");
  check_steps(options.decay_steps, "ExponentialDecay: decay_steps");
  if (!(std::isfinite(options.decay_rate) && options.decay_rate > 0)) {
    fail("ExponentialDecay: decay_rate: expected a positive finite number, found {}",
         options.decay_rate);
  }
  return {"ExponentialDecay",
          [o = options](std::int64_t iteration) {
            const double done = static_cast<double>(iteration) / static_cast<double>(o.decay_steps);
            return o.initial_learning_rate *
                   std::pow(o.decay_rate, o.staircase ? std::floor(done) : done);
          },
          fmt::format("initial_learning_rate {}, decay_steps {}, decay_rate {}, staircase {}",
                      options.initial_learning_rate, options.decay_steps, options.decay_rate,
                      options.staircase)};
}

void add_schedules(Catalog& catalog) {
  catalog.add<Schedule, CosineDecayOptions>("CosineDecay", {}, CosineDecay);
  catalog.add<Schedule, PiecewiseConstantDecayOptions>("PiecewiseConstantDecay", {},
                                                       PiecewiseConstantDecay);
  catalog.add<Schedule, ExponentialDecayOptions>("ExponentialDecay", {}, ExponentialDecay);
}

}  // namespace meshwork

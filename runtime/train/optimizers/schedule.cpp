#include "runtime/train/optimizers/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "collectives/error.h"
#include "runtime/train/from_config.h"

namespace meshwork {
namespace {

constexpr double most_rate = std::numeric_limits<float>::max();

// How many decays are done, in a staircase only whole ones.
template <class Options>
double decays_done(const Options& of, std::int64_t iteration) {
  const double done = static_cast<double>(iteration) / static_cast<double>(of.decay_steps);
  return of.staircase ? std::floor(done) : done;
}

template <class Options, class Visitor>
void describe_initial_rate(Options& options, Visitor& option) {
  option.required("initial_learning_rate", options.initial_learning_rate, finite_not_negative,
                  "rate of the first update");
}

}  // namespace

template <class Visitor>
void describe(CosineDecayOptions& options, Visitor& option) {
  option.about("half a cosine down from the initial rate, after a warm-up if given");
  describe_initial_rate(options, option);
  option.required("decay_steps", options.decay_steps, positive, "updates of the decay");
  option("alpha", options.alpha, finite_not_negative, "last rate, as a share of the highest");
  option("warmup_target", options.warmup_target, finite_not_negative, "rate after the warm-up");
  option("warmup_steps", options.warmup_steps, at_least(0), "updates of the warm-up");
}

template <class Visitor>
void describe(PiecewiseConstantDecayOptions& options, Visitor& option) {
  option.about("one rate after another");
  option.required("boundaries", options.boundaries, "last update of each rate but the last");
  option.required("values", options.values, finite_not_negative,
                  "the rates, one more than boundaries");
}

template <class Visitor>
void describe(ExponentialDecayOptions& options, Visitor& option) {
  option.about("initial rate x decay_rate^(update / decay_steps)");
  describe_initial_rate(options, option);
  option.required("decay_steps", options.decay_steps, positive, "updates of one decay");
  option.required("decay_rate", options.decay_rate, finite_positive, "factor of one decay");
  option("staircase", options.staircase, "decay once every decay_steps, not gradually");
}

template <class Visitor>
void describe(CosineDecayRestartsOptions& options, Visitor& option) {
  option.about("half a cosine down, again and again");
  describe_initial_rate(options, option);
  option.required("first_decay_steps", options.first_decay_steps, positive,
                  "updates of the first decay");
  option("t_mul", options.t_mul, at_least(1), "factor from the length of a decay to the next");
  option("m_mul", options.m_mul, finite_not_negative, "factor from one highest rate to the next");
  option("alpha", options.alpha, finite_not_negative, "lowest rate, as a share of the first");
}

template <class Visitor>
void describe(InverseTimeDecayOptions& options, Visitor& option) {
  option.about("initial rate / (1 + decay_rate x update / decay_steps)");
  describe_initial_rate(options, option);
  option.required("decay_steps", options.decay_steps, positive, "updates of one decay");
  option.required("decay_rate", options.decay_rate, finite_positive,
                  "amount that each decay adds to the divisor");
  option("staircase", options.staircase, "decay once every decay_steps, not gradually");
}

template <class Visitor>
void describe(PolynomialDecayOptions& options, Visitor& option) {
  option.about("a power of the remaining updates, down to the last rate");
  describe_initial_rate(options, option);
  option.required("decay_steps", options.decay_steps, positive, "updates of the decay");
  option("end_learning_rate", options.end_learning_rate, finite_not_negative, "last rate");
  option("power", options.power, finite_positive, "power of the remaining share");
  option("cycle", options.cycle, "decay again, over more updates, once the last rate is reached");
}

Schedule::Schedule(double rate) : name_(fmt::format("{}", rate)), constant_(rate) {
  if (!finite_not_negative.contains(rate)) {
    fail("learning rate: expected {}, found {}", finite_not_negative.of("number"), rate);
  }
  if (rate > most_rate) {
    fail("learning rate: {} exceeds the range of float32, the type of parameters", rate);
  }
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
  if (!finite_not_negative.up_to(most_rate).contains(rate)) {
    fail("schedule {}: the learning rate of iteration {} is {}", name_, iteration, rate);
  }
  return rate;
}

Schedule CosineDecay(const CosineDecayOptions& options) {
  check_options("CosineDecay", options);
  if (!options.warmup_target && options.warmup_steps != 0) {
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
          words_of(settings_of(options))};
}

Schedule PiecewiseConstantDecay(const PiecewiseConstantDecayOptions& options) {
  check_options("PiecewiseConstantDecay", options);
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
  return {"PiecewiseConstantDecay",
          [o = options](std::int64_t iteration) {
            const auto next = std::lower_bound(o.boundaries.begin(), o.boundaries.end(), iteration);
            return o.values[static_cast<std::size_t>(next - o.boundaries.begin())];
          },
          words_of(settings_of(options))};
}

Schedule ExponentialDecay(const ExponentialDecayOptions& options) {
  check_options("ExponentialDecay", options);
  return {"ExponentialDecay",
          [o = options](std::int64_t iteration) {
            return o.initial_learning_rate * std::pow(o.decay_rate, decays_done(o, iteration));
          },
          words_of(settings_of(options))};
}

Schedule CosineDecayRestarts(const CosineDecayRestartsOptions& options) {
  check_options("CosineDecayRestarts", options);
  return {"CosineDecayRestarts",
          [o = options](std::int64_t iteration) {
            // Cycles are few, and cannot be counted wrong by a rounded logarithm.
            double left = static_cast<double>(iteration) / static_cast<double>(o.first_decay_steps);
            double length = 1, highest = 1;
            if (o.t_mul == 1) {
              highest = std::pow(o.m_mul, std::floor(left));
              left -= std::floor(left);
            }
            while (left >= length) {
              left -= length;
              length *= o.t_mul;
              highest *= o.m_mul;
            }
            const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * left / length));
            return o.initial_learning_rate * ((1 - o.alpha) * highest * cosine + o.alpha);
          },
          words_of(settings_of(options))};
}

Schedule InverseTimeDecay(const InverseTimeDecayOptions& options) {
  check_options("InverseTimeDecay", options);
  return {"InverseTimeDecay",
          [o = options](std::int64_t iteration) {
            return o.initial_learning_rate / (1 + o.decay_rate * decays_done(o, iteration));
          },
          words_of(settings_of(options))};
}

Schedule PolynomialDecay(const PolynomialDecayOptions& options) {
  check_options("PolynomialDecay", options);
  return {"PolynomialDecay",
          [o = options](std::int64_t iteration) {
            double done = static_cast<double>(iteration) / static_cast<double>(o.decay_steps);
            done = o.cycle ? done / std::max(1.0, std::ceil(done)) : std::min(done, 1.0);
            return (o.initial_learning_rate - o.end_learning_rate) * std::pow(1 - done, o.power) +
                   o.end_learning_rate;
          },
          words_of(settings_of(options))};
}

void add_schedules(Catalog& catalog) {
  catalog.add<Schedule, CosineDecayRestartsOptions>("CosineDecayRestarts", {}, CosineDecayRestarts);
  catalog.add<Schedule, InverseTimeDecayOptions>("InverseTimeDecay", {}, InverseTimeDecay);
  catalog.add<Schedule, PolynomialDecayOptions>("PolynomialDecay", {}, PolynomialDecay);
  catalog.add<Schedule, CosineDecayOptions>("CosineDecay", {}, CosineDecay);
  catalog.add<Schedule, PiecewiseConstantDecayOptions>("PiecewiseConstantDecay", {},
                                                       PiecewiseConstantDecay);
  catalog.add<Schedule, ExponentialDecayOptions>("ExponentialDecay", {}, ExponentialDecay);
}

}  // namespace meshwork

// Schedule: the learning rate as a function of the iteration.
//
// An iteration is one update of the parameters, counted from 0 over all epochs. A schedule is a
// pure function of it: nothing is kept beyond the step number, and a run that is continued goes on
// where it was. A plain number is a constant schedule, the only one that callbacks may change.
// Formulas are Keras's; step s, initial rate r.
//
//     .learning_rate = 1e-3
//     .learning_rate = CosineDecay({.initial_learning_rate = 0, .decay_steps = 10000,
//                                   .warmup_target = 1e-3, .warmup_steps = 500})
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace meshwork {

class Schedule {
 public:
  /// A constant rate. Throws `Error` unless it is finite and not negative.
  Schedule(double rate);
  /// One's own. `name` is for messages; `options` tells it from others of the name, and has to be
  /// the same on all ranks.
  Schedule(std::string name, std::function<double(std::int64_t iteration)> rate,
           std::string options = "");

  /// The rate of `iteration`. Throws `Error` if it is negative or not finite.
  [[nodiscard]] double at(std::int64_t iteration) const;
  [[nodiscard]] bool is_constant() const { return !function_; }
  /// "CosineDecay", or the number if it is constant.
  [[nodiscard]] const std::string& name() const { return name_; }
  /// "initial_learning_rate 0.1, decay_steps 1000, ..."; "" if it is constant.
  [[nodiscard]] const std::string& options() const { return options_; }

 private:
  std::string name_;
  std::string options_;
  double constant_ = 0;
  std::function<double(std::int64_t)> function_;
};

/// With x = min(s, decay_steps) / decay_steps: r ((1 - alpha) (1 + cos(pi x)) / 2 + alpha). With a
/// `warmup_target`, first a straight line from r to it over `warmup_steps`, and from there the same
/// with the target for r and s counted from the warm-up's end.
struct CosineDecayOptions {
  double initial_learning_rate = 0;
  std::int64_t decay_steps = 0;  // must be positive
  double alpha = 0;              // part of the rate that is left at the end
  std::optional<double> warmup_target;
  std::int64_t warmup_steps = 0;
};
[[nodiscard]] Schedule CosineDecay(const CosineDecayOptions& options);

/// values[0] while s <= boundaries[0], values[i] while boundaries[i-1] < s <= boundaries[i], the
/// last value afterwards. One value more than boundaries, which increase.
struct PiecewiseConstantDecayOptions {
  std::vector<std::int64_t> boundaries;
  std::vector<double> values;
};
[[nodiscard]] Schedule PiecewiseConstantDecay(const PiecewiseConstantDecayOptions& options);

/// Of cycle i, whose length is first_decay_steps t_mul^i, at the share x of it that is over: r
/// ((1 - alpha) m_mul^i (1 + cos(pi x)) / 2 + alpha).
struct CosineDecayRestartsOptions {
  double initial_learning_rate = 0;
  std::int64_t first_decay_steps = 0;  // must be positive
  double t_mul = 2;                    // at least 1
  double m_mul = 1;
  double alpha = 0;
};
[[nodiscard]] Schedule CosineDecayRestarts(const CosineDecayRestartsOptions& options);

/// r / (1 + decay_rate s / decay_steps); with `staircase` the quotient of steps is rounded down.
struct InverseTimeDecayOptions {
  double initial_learning_rate = 0;
  std::int64_t decay_steps = 0;  // must be positive
  double decay_rate = 0;         // must be positive
  bool staircase = false;
};
[[nodiscard]] Schedule InverseTimeDecay(const InverseTimeDecayOptions& options);

/// (r - e) (1 - min(s, decay_steps) / decay_steps)^power + e, with e the `end_learning_rate`. With
/// `cycle`, decay_steps is multiplied by the least integer that makes it no less than s.
struct PolynomialDecayOptions {
  double initial_learning_rate = 0;
  std::int64_t decay_steps = 0;  // must be positive
  double end_learning_rate = 0.0001;
  double power = 1;
  bool cycle = false;
};
[[nodiscard]] Schedule PolynomialDecay(const PolynomialDecayOptions& options);

/// r decay_rate^(s / decay_steps); with `staircase` the exponent is rounded down.
struct ExponentialDecayOptions {
  double initial_learning_rate = 0;
  std::int64_t decay_steps = 0;  // must be positive
  double decay_rate = 0;         // must be positive
  bool staircase = false;
};
[[nodiscard]] Schedule ExponentialDecay(const ExponentialDecayOptions& options);

}  // namespace meshwork

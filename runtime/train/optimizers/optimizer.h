// Optimizer: how parameters are updated, and at which rate.
//
// An optimizer is a value. It states its slots (what it keeps for each parameter), the kernel that
// does one update in one fused pass, and how gradients are clipped before; and it has the learning
// rate. Formulas and defaults are Keras's (keras/src/optimizers); norms are those of whole
// variables, whatever their layout. Functions with Keras's names make it, in optimizers/:
//
//     Optimizer optimizer = Adam({.learning_rate = 1e-3, .global_clipnorm = 1.0});
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/exchange.h"
#include "runtime/graph/lower.h"
#include "runtime/mesh/path_pattern.h"
#include "runtime/train/optimizers/schedule.h"

namespace meshwork {

/// The running mean of each weight: average = momentum average + (1 - momentum) w after each
/// update, and w after the first. The weights that `fit` ends with are their means.
struct MovingAverage {
  bool use = false;
  double momentum = 0.99;  // from 0 to 1
  /// Every so many updates weights become their means; without, at the end of `fit` alone.
  std::optional<std::int64_t> overwrite_frequency = {};
};

/// What every optimizer has an option for. At most one clip may be given.
struct CommonOptions {
  std::optional<double> weight_decay;  // w -= w * decay * rate, apart from the update
  /// Regular expressions. Variables in whose path one is found have no weight decay.
  std::vector<std::string> exclude_from_weight_decay;
  std::optional<double> clipnorm;         // of each variable's gradient
  std::optional<double> clipvalue;        // of each element
  std::optional<double> global_clipnorm;  // of all gradients together
  MovingAverage ema;
};

/// The regular expressions `texts`, which are the option `option` of an optimizer. Throws `Error`
/// for one that is empty, malformed, or refers back to a group, which may take exponential time.
[[nodiscard]] std::vector<PathPattern> patterns_of(const std::string& class_name,
                                                   const std::string& option,
                                                   const std::vector<std::string>& texts);
/// Whether one of them is found in a variable's path.
[[nodiscard]] bool found_in(const std::string& path, const std::vector<PathPattern>& patterns);

class Optimizer {
 public:
  /// `class_name` as in Keras. `options` are all of them: ranks compare them. Throws `Error` for
  /// two clips, and for an entry of `exclude_from_weight_decay` that `patterns_of` refuses.
  /// Pages call `make_optimizer` (optimizers/make.h).
  Optimizer(std::string class_name, Schedule learning_rate, const CommonOptions& common,
            Settings options, std::vector<Slot> slots,
            std::function<KernelSpec(const UpdatedBlock& block)> kernel);

  [[nodiscard]] const std::string& class_name() const { return class_name_; }
  /// What is kept for each parameter, in the order of the kernel's operands.
  [[nodiscard]] std::vector<std::string> slot_names() const;
  /// Clipping, slots and kernel, as the lowering takes them.
  [[nodiscard]] const UpdateRule& update_rule() const { return rule_; }

  /// Whether it keeps running means of the weights, in the last slot, "average".
  [[nodiscard]] bool keeps_averages() const { return static_cast<bool>(rule_.average); }

  /// The rate of iteration `iteration`, which counts from 0.
  [[nodiscard]] double learning_rate(std::int64_t iteration) const;
  [[nodiscard]] const Schedule& schedule() const { return schedule_; }
  /// Sets a constant rate from now on. Throws `Error` if a schedule rules it, or if it is negative
  /// or not finite.
  void set_learning_rate(double rate);

  /// From now on norms of variables scale steps.
  void scale_steps(ScaledSteps steps) { rule_.scaled_steps = std::move(steps); }

  /// From now on a slot is factored.
  void factor_slot(FactoredSlot slot) { rule_.factored_slot = std::move(slot); }

  /// From now on matrices are updated apart (UpdateRule::matrix_steps).
  void step_by_matrices(MatrixSteps steps) { rule_.matrix_steps = std::move(steps); }

  /// The number that Keras keeps in its files behind the slots, if it keeps one. It follows from
  /// the updates so far.
  using KerasNumber = std::function<double(std::int64_t iteration)>;
  [[nodiscard]] std::optional<double> keras_number(std::int64_t iteration) const;
  void set_keras_number(KerasNumber number) { keras_number_ = std::move(number); }

  /// Class, learning rate and all options, by their names.
  [[nodiscard]] Settings settings() const;

 private:
  std::string class_name_;
  Schedule schedule_;
  Settings options_;
  UpdateRule rule_;
  KerasNumber keras_number_;
};

}  // namespace meshwork

// How an optimizer's page makes it of its described options (runtime/config/options.h).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/config/float_range.h"
#include "runtime/train/from_config.h"
#include "runtime/train/optimizers/optimizer.h"

namespace meshwork {

/// Describes what every optimizer has an option for; `describe` of its page calls it first.
template <class Options, class Visitor>
void describe_common(Options& options, Visitor& option) {
  option("learning_rate", options.learning_rate, "factor of each step");
  option("weight_decay", options.weight_decay, float_not_negative,
         "share of each weight subtracted in a step of rate 1");
  option("exclude_from_weight_decay", options.exclude_from_weight_decay,
         "regular expressions; variables with a match in their path have no weight decay");
  option("clipnorm", options.clipnorm, float_positive, "largest norm of a variable's gradient");
  option("clipvalue", options.clipvalue, float_positive, "largest element of a gradient");
  option("global_clipnorm", options.global_clipnorm, float_positive,
         "largest norm of all gradients together");
  option("use_ema", options.ema.use, "keep a running mean of each weight; fit ends with the means");
  option("ema_momentum", options.ema.momentum, between(0, 1), "share of the mean kept per step");
  option("ema_overwrite_frequency", options.ema.overwrite_frequency, at_least(1),
         "steps between copies of the means to the weights; none: only at the end");
}

/// Describes the shares of running means of gradients and of their squares.
template <class Options, class Visitor>
void describe_moments(Options& options, Visitor& option) {
  option("beta_1", options.beta_1, at_least(0).below(1),
         "share of the gradients' mean kept per step");
  option("beta_2", options.beta_2, at_least(0).below(1),
         "share of the squares' mean kept per step");
  option("epsilon", options.epsilon, float_not_negative, "added to the root of the squares' mean");
}

/// `update` is the kernel's specification, with what the options say of it, but for the decay.
/// Throws `Error` for options out of range.
template <class Options, class Spec>
[[nodiscard]] Optimizer make_optimizer(const std::string& class_name, const Options& options,
                                       std::vector<Slot> slots, Spec update,
                                       std::optional<double> decay) {
  check_options(class_name, options);
  update.decay = static_cast<float>(decay.value_or(0));
  return {class_name,
          options.learning_rate,
          {options.weight_decay, options.exclude_from_weight_decay, options.clipnorm,
           options.clipvalue, options.global_clipnorm, options.ema},
          settings_of(options),
          std::move(slots),
          [update](const UpdatedBlock& block) {
            Spec spec = update;
            spec.count = block.count;
            spec.scaled = block.scaled;
            spec.narrows = block.narrows;
            if (!block.decays) spec.decay = 0;
            return KernelSpec(spec);
          }};
}

/// With the decay that all variables have.
template <class Options, class Spec>
[[nodiscard]] Optimizer make_optimizer(const std::string& class_name, const Options& options,
                                       std::vector<Slot> slots, const Spec& update) {
  return make_optimizer(class_name, options, std::move(slots), update, options.weight_decay);
}

}  // namespace meshwork

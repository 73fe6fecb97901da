#include "runtime/train/optimizers/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "collectives/error.h"
#include "runtime/device/kernel_spec.h"
#include "runtime/device/kernels/average.h"

namespace meshwork {
namespace {

struct Clip {
  Clipping kind;
  const char* option;
  std::optional<double> CommonOptions::*value;
};
constexpr Clip clips[] = {
    {Clipping::norm, "clipnorm", &CommonOptions::clipnorm},
    {Clipping::value, "clipvalue", &CommonOptions::clipvalue},
    {Clipping::global_norm, "global_clipnorm", &CommonOptions::global_clipnorm}};

}  // namespace

std::vector<PathPattern> patterns_of(const std::string& class_name, const std::string& option,
                                     const std::vector<std::string>& texts) {
  std::vector<PathPattern> patterns;
  for (const std::string& text : texts) {
    patterns.emplace_back("expression", text, class_name + ": " + option);
  }
  return patterns;
}

bool found_in(const std::string& path, const std::vector<PathPattern>& patterns) {
  return std::ranges::any_of(patterns,
                             [&](const PathPattern& pattern) { return pattern.is_found_in(path); });
}

Optimizer::Optimizer(std::string class_name, Schedule learning_rate, const CommonOptions& common,
                     Settings options, std::vector<Slot> slots,
                     std::function<KernelSpec(const UpdatedBlock& block)> kernel)
    : class_name_(std::move(class_name)),
      schedule_(std::move(learning_rate)),
      options_(std::move(options)) {
  std::erase_if(options_, [](const auto& option) { return option.first == "learning_rate"; });
  const char* given = nullptr;
  for (const Clip& clip : clips) {
    const std::optional<double>& value = common.*clip.value;
    if (!value) {
      continue;
    }
    if (given) {
      fail("{}: {} and {} are both given; gradients are clipped in one way", class_name_, given,
           clip.option);
    }
    given = clip.option;
    rule_.clipping = clip.kind;
    rule_.clip = static_cast<float>(*value);
  }
  rule_.slots = std::move(slots);
  rule_.kernel = std::move(kernel);
  if (!common.exclude_from_weight_decay.empty()) {
    rule_.decays = [patterns = patterns_of(class_name_, "exclude_from_weight_decay",
                                           common.exclude_from_weight_decay)](
                       const Variable& variable) { return !found_in(variable.path, patterns); };
  }
  const MovingAverage& ema = common.ema;
  if (!ema.use && (ema.momentum != MovingAverage().momentum || ema.overwrite_frequency)) {
    fail("{}: {} needs running means of weights; set use_ema: true", class_name_,
         ema.overwrite_frequency ? "ema_overwrite_frequency" : "ema_momentum");
  }
  if (ema.use) {
    rule_.slots.push_back({average_slot});
    rule_.average = [ema](const UpdatedBlock& block) {
      return KernelSpec(AverageSpec{.count = block.count,
                                    .momentum = ema.momentum,
                                    .overwrite_every = ema.overwrite_frequency.value_or(0),
                                    .narrows = block.narrows});
    };
  }
}

std::vector<std::string> Optimizer::slot_names() const {
  std::vector<std::string> names;
  for (const Slot& slot : rule_.slots) {
    names.push_back(slot.name);
  }
  return names;
}

double Optimizer::learning_rate(std::int64_t iteration) const {
  return schedule_.at(iteration);
}

std::optional<double> Optimizer::keras_number(std::int64_t iteration) const {
  return keras_number_ ? std::optional(keras_number_(iteration)) : std::nullopt;
}

void Optimizer::set_learning_rate(double rate) {
  if (!schedule_.is_constant()) {
    fail(
        "the learning rate of {} follows {} and cannot be set; set the optimizer's learning_rate "
        "to a number",
        class_name_, schedule_.name());
  }
  schedule_ = Schedule(rate);
}

Settings Optimizer::settings() const {
  const std::string& options = schedule_.options();
  Settings settings{
      {"class", class_name_},
      {"learning_rate", schedule_.name() + (options.empty() ? "" : " of ") + options}};
  settings.insert(settings.end(), options_.begin(), options_.end());
  return settings;
}

}  // namespace meshwork

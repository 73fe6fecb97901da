#include "runtime/train/optimizer.h"

#include <cmath>
#include <limits>
#include <utility>
#include <variant>

#include "collectives/error.h"

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

Optimizer::Optimizer(std::string class_name, Schedule learning_rate, const CommonOptions& common,
                     Settings own_options, std::vector<std::string> slot_names, Update update)
    : class_name_(std::move(class_name)),
      schedule_(std::move(learning_rate)),
      slot_names_(std::move(slot_names)),
      options_(std::move(own_options)) {
  constexpr double largest = std::numeric_limits<float>::max();
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
    if (!(*value > 0)) {
      fail("{}: {}: expected a positive finite number, found {}", class_name_, clip.option, *value);
    }
    check_option(class_name_, clip.option, *value, 0, largest);
    given = clip.option;
    options_.push_back(setting(clip.option, *value));
    rule_.clipping = clip.kind;
    rule_.clip = static_cast<float>(*value);
  }
  const double decay = common.weight_decay.value_or(0);
  check_option(class_name_, "weight_decay", decay, 0, largest);
  options_.push_back(setting("weight_decay", decay));
  rule_.slots = static_cast<int>(slot_names_.size());
  std::visit([decay](auto& spec) { spec.decay = static_cast<float>(decay); }, update);
  rule_.kernel = [update](const UpdatedBlock& block) {
    return std::visit(
        [&](auto spec) -> KernelSpec {
          spec.count = block.count;
          spec.scaled = block.scaled;
          spec.narrows = block.narrows;
          return spec;
        },
        update);
  };
}

double Optimizer::learning_rate(std::int64_t iteration) const {
  return schedule_.at(iteration);
}

void Optimizer::set_learning_rate(double rate) {
  if (!schedule_.is_constant()) {
    fail(
        "the learning rate of {} follows {} and cannot be set; give the optimizer a number for "
        "its learning rate",
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

void check_option(const std::string& optimizer, const std::string& option, double value, double low,
                  double high) {
  if (value >= low && value <= high) {
    return;
  }
  if (high >= std::numeric_limits<float>::max()) {
    fail("{}: {}: expected a finite number of at least {}, found {}", optimizer, option, low,
         value);
  }
  fail("{}: {}: expected a number from {} to {}, found {}", optimizer, option, low, high, value);
}

}  // namespace meshwork

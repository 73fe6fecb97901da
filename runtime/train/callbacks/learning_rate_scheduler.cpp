#include "runtime/train/callbacks/learning_rate_scheduler.h"

#include <cmath>
#include <span>
#include <utility>

#include "collectives/error.h"

namespace meshwork {
namespace {

class LearningRateSchedulerCallback final : public Callback {
 public:
  explicit LearningRateSchedulerCallback(LearningRateSchedulerOptions options)
      : options_(std::move(options)) {}

  std::string class_name() const override { return "LearningRateScheduler"; }
  bool decides_alike() const override { return true; }
  std::int64_t agreed_values() const override { return 1; }
  std::vector<std::string> adds_logs() const override { return {"learning_rate"}; }

  void on_epoch_begin(Training& training) override {
    if (training.position().batch > 0) {
      return;  // the epoch goes on from a checkpoint inside it, and has its rate
    }
    const std::int64_t epoch = training.position().epoch;
    const double before = training.learning_rate();
    double rate = training.is_root() ? options_.schedule(epoch, before) : 0;
    training.agree(std::span(&rate, 1));
    if (!(std::isfinite(rate) && rate >= 0)) {
      fail(
          "LearningRateScheduler: the function gave {} for epoch {}, where a finite learning rate "
          "that is not negative was expected",
          rate, epoch);
    }
    training.set_learning_rate(rate);
    if (options_.verbose) {
      training.say(fmt::format(
          "Epoch {}: LearningRateScheduler: the learning rate goes from {:.5g} to {:.5g}",
          epoch + 1, before, rate));
    }
  }

  void on_epoch_end(Training& training) override {
    training.logs().set("learning_rate", training.learning_rate());
  }

 private:
  LearningRateSchedulerOptions options_;
};

}  // namespace

SharedCallback LearningRateScheduler(LearningRateSchedulerOptions options) {
  if (!options.schedule) {
    fail("LearningRateScheduler: there is no function");
  }
  return std::make_shared<LearningRateSchedulerCallback>(std::move(options));
}

}  // namespace meshwork

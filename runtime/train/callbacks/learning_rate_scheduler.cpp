#include "runtime/train/callbacks/learning_rate_scheduler.h"

#include <cmath>
#include <span>
#include <utility>

#include "collectives/error.h"
#include "runtime/train/from_config.h"

namespace meshwork {
namespace {

class LearningRateSchedulerCallback final : public Callback {
 public:
  explicit LearningRateSchedulerCallback(LearningRateSchedulerOptions options)
      : options_(std::move(options)) {}

  std::string class_name() const override { return "LearningRateScheduler"; }
  bool decides_alike() const override { return true; }
  bool waits_for_validation() const override { return false; }
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
          "LearningRateScheduler: the function gave {} for epoch {}; expected a finite learning "
          "rate of at least 0",
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

namespace {

/// As configurations have them, which cannot write a function down.
struct ScheduledOptions {
  Schedule schedule = 0.0;
  bool verbose = false;
};

template <class Visitor>
void describe(ScheduledOptions& options, Visitor& option) {
  option.about("sets the learning rate of each epoch");
  option.required("schedule", options.schedule, "rate by the number of the epoch, from 0");
  option("verbose", options.verbose, "print each rate");
}

}  // namespace

void add_learning_rate_scheduler(Catalog& catalog) {
  catalog.add<SharedCallback, ScheduledOptions>(
      "LearningRateScheduler", {}, [](const ScheduledOptions& options) {
        return LearningRateScheduler(
            {.schedule = [schedule = options.schedule](std::int64_t epoch,
                                                       double) { return schedule.at(epoch); },
             .verbose = options.verbose});
      });
}

}  // namespace meshwork

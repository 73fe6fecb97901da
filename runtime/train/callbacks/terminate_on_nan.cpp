#include "runtime/train/callbacks/terminate_on_nan.h"

#include <cmath>
#include <optional>

#include "collectives/error.h"
#include "runtime/train/from_config.h"

namespace meshwork {
namespace {

class TerminateOnNaNCallback final : public Callback {
 public:
  explicit TerminateOnNaNCallback(const TerminateOnNaNOptions& options) : options_(options) {}

  std::string class_name() const override { return "TerminateOnNaN"; }
  bool decides_alike() const override { return true; }
  bool waits_for_validation() const override { return false; }

  // The loss is the same on all ranks, so that they all come to the same end.
  void on_train_batch_end(Training& training) override {
    const std::optional<double> loss = training.logs().find("loss");
    if (!loss || std::isfinite(*loss)) {
      return;
    }
    const TrainingPosition& at = training.position();
    std::string message =
        fmt::format("Epoch {}: TerminateOnNaN: the loss is {} after batch {} of {}", at.epoch + 1,
                    *loss, at.batch + 1, at.batches);
    if (const std::string where = training.where_not_finite(); !where.empty()) {
      message += "; first seen on " + where;
    }
    if (options_.raise_error) {
      throw Error(message);
    }
    training.say(message + "; training ends");
    training.stop();
  }

 private:
  TerminateOnNaNOptions options_;
};

}  // namespace

template <class Visitor>
void describe(TerminateOnNaNOptions& options, Visitor& option) {
  option.about("ends training when the loss is not finite");
  option("raise_error", options.raise_error, "fail with an error instead of ending cleanly");
}

SharedCallback TerminateOnNaN(const TerminateOnNaNOptions& options) {
  return std::make_shared<TerminateOnNaNCallback>(options);
}

void add_terminate_on_nan(Catalog& catalog) {
  catalog.add<SharedCallback, TerminateOnNaNOptions>("TerminateOnNaN", {}, TerminateOnNaN);
}

}  // namespace meshwork

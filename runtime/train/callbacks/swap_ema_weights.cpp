#include "runtime/train/callbacks/swap_ema_weights.h"

#include <memory>
#include <string>

#include "collectives/error.h"
#include "runtime/train/from_config.h"

namespace meshwork {
namespace {

class SwapEMAWeightsCallback final : public Callback {
 public:
  explicit SwapEMAWeightsCallback(const SwapEMAWeightsOptions& options) : options_(options) {}

  std::string class_name() const override { return "SwapEMAWeights"; }
  bool decides_alike() const override { return true; }
  bool waits_for_validation() const override { return false; }

  void check(const ExpectedLogs& expected) const override { require(expected.averages); }
  void on_train_begin(Training& training) override { require(training.keeps_averages()); }
  void on_test_begin(Training& training) override { training.use_averages(true); }
  void on_test_end(Training& training) override { training.use_averages(false); }
  void on_epoch_end(Training& training) override {
    if (options_.swap_on_epoch) training.use_averages(true);
  }

 private:
  static void require(bool averages) {
    if (!averages) {
      fail(
          "SwapEMAWeights: the optimizer keeps no means of the weights; set use_ema: true in the "
          "optimizer");
    }
  }

  SwapEMAWeightsOptions options_;
};

}  // namespace

template <class Visitor>
void describe(SwapEMAWeightsOptions& options, Visitor& option) {
  option.about("validates the running means of the weights, which use_ema of the optimizer keeps");
  option("swap_on_epoch", options.swap_on_epoch,
         "swap weights and means at the end of each epoch, until the next one begins");
}

SharedCallback SwapEMAWeights(const SwapEMAWeightsOptions& options) {
  return std::make_shared<SwapEMAWeightsCallback>(options);
}

void add_swap_ema_weights(Catalog& catalog) {
  catalog.add<SharedCallback, SwapEMAWeightsOptions>("SwapEMAWeights", {}, SwapEMAWeights);
}

}  // namespace meshwork

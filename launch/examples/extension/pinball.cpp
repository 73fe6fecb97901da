// Pinball: the loss whose best prediction is a quantile of the targets (Koenker and Bassett, 1978).
//
//     tau * (t - p) where p <= t, else (1 - tau) * (p - t)
//
// A loss of values is a function of a prediction and a target, and its slope. Means over the global
// batch, weights of samples, masks and micro-batches come with it.
#include <meshwork/extension.h>

#include "runtime/device/bodies/value_losses.h"
#include "runtime/device/cpu/body_loops.h"
#include "runtime/train/from_config.h"
#include "runtime/train/losses/function_loss.h"

namespace mine {

using namespace meshwork;

namespace {

struct PinballFunction {
  static constexpr const char* name = "pinball";
  float tau = 0.5f;

  template <class Math>
  [[nodiscard]] double term(float p, float t) const {
    const double distance = static_cast<double>(t) - static_cast<double>(p);
    return distance >= 0 ? static_cast<double>(tau) * distance
                         : (static_cast<double>(tau) - 1) * distance;
  }
  template <class Math>
  [[nodiscard]] float slope(float p, float t) const {
    return p < t ? -tau : p > t ? 1 - tau : 0.0f;
  }
};

struct PinballOptions {
  double tau = 0.5;
  std::string name = "pinball";
};

template <class Visitor>
void describe(PinballOptions& options, Visitor& option) {
  option.about("the loss of a quantile");
  option("tau", options.tau, between(0, 1), "the share of targets below the quantile");
  option("name", options.name, "name in the logs");
}

SharedLoss make_pinball(const PinballOptions& options) {
  return make_function_loss(options.name, "pinball",
                            PinballFunction{static_cast<float>(options.tau)});
}

}  // namespace

void add_pinball(Catalog& catalog) {
  catalog.add<SharedLoss, PinballOptions>("Pinball", {}, make_pinball);
  cpu::extend_kernels(
      [](cpu::Kernels& kernels) { bodies::add_value_loss<cpu::Loops, PinballFunction>(kernels); });
}

}  // namespace mine

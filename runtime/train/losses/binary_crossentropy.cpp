#include "runtime/train/losses/binary_crossentropy.h"

#include "collectives/error.h"
#include "runtime/device/kernels/losses.h"
#include "runtime/train/from_config.h"
#include "runtime/train/losses/value_comparison.h"

namespace meshwork {

SharedLoss BinaryCrossentropy(const BinaryCrossentropyOptions& options) {
  check_options("BinaryCrossentropy", options);
  const bool from_logits = options.from_logits;
  const float smoothing = static_cast<float>(options.label_smoothing);
  return make_value_loss(
      options.name, "binary_crossentropy",
      {.sum =
           [=](std::int64_t count, double scale, std::int64_t values_a_weight) {
             return BinaryCrossentropySpec{count, scale, from_logits, smoothing, values_a_weight};
           },
       .gradient =
           [=](Lowering& lowering, std::int64_t count, double scale) {
             lowering.emit(BinaryCrossentropyGradientSpec{count, static_cast<float>(scale),
                                                          from_logits, smoothing},
                           {lowering.input(0), lowering.input(1), lowering.input_gradient(0)});
           }},
      from_logits ? Predictions::logits : Predictions::probabilities, true);
}

void add_binary_crossentropy(Catalog& catalog) {
  catalog.add<SharedLoss, BinaryCrossentropyOptions>(
      "BinaryCrossentropy", {"binary_crossentropy", "bce", "BCE"}, BinaryCrossentropy);
}

}  // namespace meshwork

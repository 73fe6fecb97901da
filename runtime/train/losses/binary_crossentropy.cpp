#include "runtime/train/losses/binary_crossentropy.h"

#include "collectives/error.h"
#include "runtime/train/losses/value_loss.h"

namespace meshwork {

SharedLoss BinaryCrossentropy(const BinaryCrossentropyOptions& options) {
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1)) {
    fail("BinaryCrossentropy: expected label_smoothing between 0 and 1, found {}",
         options.label_smoothing);
  }
  const bool from_logits = options.from_logits;
  const float smoothing = static_cast<float>(options.label_smoothing);
  return make_value_loss(
      options.name, "binary_crossentropy",
      {.sum =
           [=](std::int64_t count, double scale) {
             return BinaryCrossentropySpec{count, scale, from_logits, smoothing};
           },
       .gradient =
           [=](Lowering& lowering, std::int64_t count, double scale) {
             lowering.emit(BinaryCrossentropyGradientSpec{count, static_cast<float>(scale),
                                                          from_logits, smoothing},
                           {lowering.input(0), lowering.input(1), lowering.input_gradient(0)});
           }});
}

}  // namespace meshwork

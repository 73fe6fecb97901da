#include "runtime/train/losses/categorical_crossentropy.h"

#include "runtime/train/from_config.h"
#include "runtime/train/losses/class_crossentropy.h"

namespace meshwork {

template <class Visitor>
void describe(CategoricalCrossentropyOptions& options, Visitor& option) {
  option("from_logits", options.from_logits, "predictions are logits, not probabilities");
  option("label_smoothing", options.label_smoothing, between(0, 1),
         "part of each target that is shared out evenly");
  option("name", options.name, "what logs call it");
}

SharedLoss CategoricalCrossentropy(const CategoricalCrossentropyOptions& options) {
  check_options("CategoricalCrossentropy", options);
  return make_loss(options.name, TargetForm::weights, [options] {
    return make_class_crossentropy("categorical_crossentropy",
                                   {.targets = TargetForm::weights,
                                    .from_logits = options.from_logits,
                                    .smoothing = options.label_smoothing});
  });
}

void add_categorical_crossentropy(Catalog& catalog) {
  catalog.add<SharedLoss, CategoricalCrossentropyOptions>(
      "CategoricalCrossentropy", {"categorical_crossentropy"}, CategoricalCrossentropy);
}

}  // namespace meshwork

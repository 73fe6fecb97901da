#include "runtime/train/losses/sparse_categorical_crossentropy.h"

#include "runtime/train/from_config.h"
#include "runtime/train/losses/class_crossentropy.h"

namespace meshwork {

template <class Visitor>
void describe(SparseCategoricalCrossentropyOptions& options, Visitor& option) {
  option("from_logits", options.from_logits, "predictions are logits, not probabilities");
  option("name", options.name, "what logs call it");
}

SharedLoss SparseCategoricalCrossentropy(const SparseCategoricalCrossentropyOptions& options) {
  return make_loss(options.name, TargetForm::classes, [options] {
    return make_class_crossentropy(
        "sparse_categorical_crossentropy",
        {.targets = TargetForm::classes, .from_logits = options.from_logits});
  });
}

void add_sparse_categorical_crossentropy(Catalog& catalog) {
  catalog.add<SharedLoss, SparseCategoricalCrossentropyOptions>("SparseCategoricalCrossentropy",
                                                                {"sparse_categorical_crossentropy"},
                                                                SparseCategoricalCrossentropy);
}

}  // namespace meshwork

#include "runtime/train/losses/sparse_categorical_crossentropy.h"

#include <utility>

#include "runtime/train/from_config.h"
#include "runtime/train/losses/class_crossentropy.h"

namespace meshwork {
namespace {

class SparseCategoricalCrossentropyLoss final : public Loss {
 public:
  explicit SparseCategoricalCrossentropyLoss(SparseCategoricalCrossentropyOptions options)
      : options_(std::move(options)) {}

  std::string name() const override { return options_.name; }
  Shape target_shape(const Shape& prediction) const override {
    return target_shape_of(TargetForm::classes, prediction);
  }
  std::unique_ptr<Operation> operation(const Shape& prediction,
                                       const Shape& target) const override {
    check_target(TargetForm::classes, prediction, target);
    return make_class_crossentropy(
        "sparse_categorical_crossentropy",
        {.targets = TargetForm::classes, .from_logits = options_.from_logits});
  }
  std::int64_t target_classes(const Shape& prediction, const Shape&) const override {
    return class_count(prediction);
  }

 private:
  SparseCategoricalCrossentropyOptions options_;
};

}  // namespace

template <class Visitor>
void describe(SparseCategoricalCrossentropyOptions& options, Visitor& option) {
  option("from_logits", options.from_logits, "predictions are logits, not probabilities");
  option("name", options.name, "what logs call it");
}

SharedLoss SparseCategoricalCrossentropy(const SparseCategoricalCrossentropyOptions& options) {
  return std::make_shared<SparseCategoricalCrossentropyLoss>(options);
}

void add_sparse_categorical_crossentropy(Catalog& catalog) {
  catalog.add<SharedLoss, SparseCategoricalCrossentropyOptions>("SparseCategoricalCrossentropy",
                                                                {"sparse_categorical_crossentropy"},
                                                                SparseCategoricalCrossentropy);
}

}  // namespace meshwork

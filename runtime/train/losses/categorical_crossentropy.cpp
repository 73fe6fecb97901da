#include "runtime/train/losses/categorical_crossentropy.h"

#include <utility>

#include "collectives/error.h"
#include "runtime/train/from_config.h"
#include "runtime/train/losses/class_crossentropy.h"

namespace meshwork {
namespace {

class CategoricalCrossentropyLoss final : public Loss {
 public:
  explicit CategoricalCrossentropyLoss(CategoricalCrossentropyOptions options)
      : options_(std::move(options)) {}

  std::string name() const override { return options_.name; }
  Shape target_shape(const Shape& prediction) const override {
    return target_shape_of(TargetForm::weights, prediction);
  }
  std::unique_ptr<Operation> operation(const Shape& prediction,
                                       const Shape& target) const override {
    check_target(TargetForm::weights, prediction, target);
    return make_class_crossentropy("categorical_crossentropy",
                                   {.targets = TargetForm::weights,
                                    .from_logits = options_.from_logits,
                                    .smoothing = options_.label_smoothing});
  }

 private:
  CategoricalCrossentropyOptions options_;
};

}  // namespace

template <class Visitor>
void describe(CategoricalCrossentropyOptions& options, Visitor& option) {
  option("from_logits", options.from_logits, "predictions are logits, not probabilities");
  option("label_smoothing", options.label_smoothing, between(0, 1),
         "part of each target that is shared out evenly");
  option("name", options.name, "what logs call it");
}

SharedLoss CategoricalCrossentropy(const CategoricalCrossentropyOptions& options) {
  check_options("CategoricalCrossentropy", options);
  return std::make_shared<CategoricalCrossentropyLoss>(options);
}

void add_categorical_crossentropy(Catalog& catalog) {
  catalog.add<SharedLoss, CategoricalCrossentropyOptions>(
      "CategoricalCrossentropy", {"categorical_crossentropy"}, CategoricalCrossentropy);
}

}  // namespace meshwork

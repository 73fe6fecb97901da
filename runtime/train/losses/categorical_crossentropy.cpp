#include "runtime/train/losses/categorical_crossentropy.h"

#include <utility>

#include "collectives/error.h"
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

SharedLoss CategoricalCrossentropy(const CategoricalCrossentropyOptions& options) {
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1)) {
    fail("CategoricalCrossentropy: expected label_smoothing between 0 and 1, found {}",
         options.label_smoothing);
  }
  return std::make_shared<CategoricalCrossentropyLoss>(options);
}

}  // namespace meshwork

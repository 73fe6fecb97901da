#include "runtime/train/losses/focal_crossentropy.h"

#include "runtime/config/float_range.h"
#include "runtime/train/from_config.h"
#include "runtime/train/losses/function_loss.h"

namespace meshwork {

template <class Visitor>
void describe(BinaryFocalCrossentropyOptions& options, Visitor& option) {
  option.about("binary cross-entropy in which good predictions count little");
  option("apply_class_balancing", options.apply_class_balancing, "weigh the two classes by alpha");
  option("alpha", options.alpha, between(0, 1), "weight of class 1; that of class 0 is 1 - alpha");
  option("gamma", options.gamma, float_not_negative, "power of the distance from the target");
  option("from_logits", options.from_logits, "predictions are logits, not probabilities");
  option("label_smoothing", options.label_smoothing, between(0, 1),
         "share of each target that is spread over both classes");
  option("name", options.name, "name in the logs");
}

template <class Visitor>
void describe(CategoricalFocalCrossentropyOptions& options, Visitor& option) {
  option.about("cross-entropy over classes in which good predictions count little");
  option("alpha", options.alpha, between(0, 1), "weight of every class");
  option("gamma", options.gamma, float_not_negative, "power of 1 - p of the right class");
  option("from_logits", options.from_logits, "predictions are logits, not probabilities");
  option("label_smoothing", options.label_smoothing, between(0, 1),
         "share of each target that is spread over all classes");
  option("name", options.name, "name in the logs");
}

SharedLoss BinaryFocalCrossentropy(const BinaryFocalCrossentropyOptions& options) {
  check_options("BinaryFocalCrossentropy", options);
  const auto make = [&]<bool of_logits>(FocalFunction<of_logits> function) {
    function.gamma = static_cast<float>(options.gamma);
    function.alpha = static_cast<float>(options.alpha);
    function.balanced = options.apply_class_balancing;
    function.smoothing = static_cast<float>(options.label_smoothing);
    return make_function_loss(
        options.name, "binary_focal_crossentropy", function,
        {.predictions = of_logits ? Predictions::logits : Predictions::probabilities,
         .binary = true});
  };
  return options.from_logits ? make(FocalFunction<true>{}) : make(FocalFunction<false>{});
}

SharedLoss CategoricalFocalCrossentropy(const CategoricalFocalCrossentropyOptions& options) {
  check_options("CategoricalFocalCrossentropy", options);
  const auto make = [&]<bool of_logits>(CategoricalFocalFunction<of_logits> function) {
    function.gamma = static_cast<float>(options.gamma);
    function.alpha = static_cast<float>(options.alpha);
    function.smoothing = static_cast<float>(options.label_smoothing);
    return make_row_loss(options.name, "categorical_focal_crossentropy", function,
                         of_logits ? Predictions::logits : Predictions::probabilities);
  };
  return options.from_logits ? make(CategoricalFocalFunction<true>{})
                             : make(CategoricalFocalFunction<false>{});
}

void add_focal_crossentropy(Catalog& catalog) {
  catalog.add<SharedLoss, BinaryFocalCrossentropyOptions>(
      "BinaryFocalCrossentropy", {"binary_focal_crossentropy"}, BinaryFocalCrossentropy);
  catalog.add<SharedLoss, CategoricalFocalCrossentropyOptions>("CategoricalFocalCrossentropy",
                                                               {"categorical_focal_crossentropy"},
                                                               CategoricalFocalCrossentropy);
}

}  // namespace meshwork

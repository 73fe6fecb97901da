// Regularizers as configurations name them. As in Keras, L1 and L2 are 0.01 if nothing is said, and
// 0 within L1L2.
#include <functional>

#include "runtime/graph/layer_config.h"

namespace meshwork {
namespace {

/// What L1 and L2 take: `{L2: 0.01}` stands for `{L2: {l2: 0.01}}`.
struct OneFactor {
  const char* name;
  float value = 0.01f;
};

template <class Visitor>
void describe(OneFactor& options, Visitor& option) {
  option.about("a penalty on weights; {L2: 0.01} is short for {L2: {l2: 0.01}}");
  option(options.name, options.value, finite_not_negative,
         options.name == std::string_view("l1") ? "factor of the sum of absolute values"
                                                : "factor of the sum of squares");
}

/// How far rows or columns are from right angles.
struct OrthogonalOptions {
  float factor = 0.01f;
  bool of_rows = true;
};

template <class Visitor>
void describe(OrthogonalOptions& options, Visitor& option) {
  option.about("a penalty on rows or columns of a matrix that are not at right angles");
  option("factor", options.factor, finite_not_negative,
         "factor of the mean size of the cosines between pairs");
  option.choice("mode", options.of_rows, {{"rows", true}, {"columns", false}}, "which are paired");
}

}  // namespace

template <class Visitor>
void describe(Regularizer& options, Visitor& option) {
  option.about("a penalty on weights, added to the loss");
  option("l1", options.l1, finite_not_negative, "factor of the sum of absolute values");
  option("l2", options.l2, finite_not_negative, "factor of the sum of squares");
}

void add_regularizers(Catalog& catalog) {
  const auto add = [&](const char* class_name, const char* name, float Regularizer::*factor) {
    const auto make = [=](const ConfigNode& node, const Catalog& all) {
      Regularizer regularizer;
      regularizer.*factor =
          node.is_scalar()
              ? node.as<float>(finite_not_negative)
              : read_options<OneFactor>(node, all, class_name, {}, {name}, "regularizer").value;
      return regularizer;
    };
    catalog.enter<Regularizer>(
        {class_name, {name}, make, [=] { return explained<OneFactor>({name}); }});
  };
  add("L1", "l1", &Regularizer::l1);
  add("L2", "l2", &Regularizer::l2);
  catalog.add<Regularizer, OrthogonalOptions>(
      "OrthogonalRegularizer", {"orthogonal_regularizer"}, [](const OrthogonalOptions& options) {
        return Regularizer{.orthogonal = options.factor, .of_rows = options.of_rows};
      });
  catalog.add<Regularizer, Regularizer>("L1L2", {"l1_l2"}, std::identity());
}

}  // namespace meshwork

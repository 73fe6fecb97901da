// As in Keras, L1 and L2 are 0.01 if nothing is said, and 0 within L1L2.
#include "layers/regularizers/l1_l2.h"

#include <functional>
#include <string>
#include <string_view>

#include "runtime/device/kernels/norms.h"
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

PenaltySum sum_of_powers(float factor, int power) {
  return {static_cast<double>(factor), [power](std::int64_t count) {
            return PowerSumSpec{count, power};
          }};
}

void enter_one(Catalog& catalog, const char* class_name, const char* name,
               Regularizer (*make_one)(float factor)) {
  const auto make = [=](const ConfigNode& node, const Catalog& all) {
    return make_one(
        node.is_scalar()
            ? node.as<float>(finite_not_negative)
            : read_options<OneFactor>(node, all, class_name, {}, {name}, "regularizer").value);
  };
  catalog.enter<Regularizer>(
      {class_name, {name}, make, [=] { return explained<OneFactor>({name}); }});
}

}  // namespace

template <class Visitor>
void describe(L1L2Options& options, Visitor& option) {
  option.about("a penalty on weights, added to the loss");
  option("l1", options.l1, finite_not_negative, "factor of the sum of absolute values");
  option("l2", options.l2, finite_not_negative, "factor of the sum of squares");
}

Regularizer L1L2(const L1L2Options& options) {
  check_options("L1L2", options);
  Regularizer made{.name = "L1L2", .settings = settings_of(options)};
  if (options.l1 != 0) made.sums.push_back(sum_of_powers(options.l1, 1));
  if (options.l2 != 0) made.sums.push_back(sum_of_powers(options.l2, 2));
  if (made.active()) {
    made.slope = [options](std::int64_t count) {
      return PenaltyGradientSpec{count, options.l1, options.l2};
    };
  }
  return made;
}

Regularizer L1(float l1) {
  return L1L2({.l1 = l1});
}

Regularizer L2(float l2) {
  return L1L2({.l2 = l2});
}

void add_l1_l2(Catalog& catalog) {
  enter_one(catalog, "L1", "l1", L1);
  enter_one(catalog, "L2", "l2", L2);
  catalog.add<Regularizer, L1L2Options>("L1L2", {"l1_l2"}, L1L2);
}

}  // namespace meshwork

#include "layers/initializers/random_normal.h"

#include "runtime/graph/layer_config.h"
#include "runtime/graph/make_initializer.h"

namespace meshwork {

template <class Visitor>
void describe(RandomNormalOptions& options, Visitor& option) {
  option.about("a normal distribution");
  option("mean", options.mean, any_finite, "mean");
  option("stddev", options.stddev, finite_not_negative,
         "standard deviation, before values are cut off");
}

Initializer RandomNormal(const RandomNormalOptions& options) {
  return make_initializer(
      "random_normal", options, [options](const InitializedVariable& variable) -> ElementValue {
        return [options, numbers = RandomNumbers(variable.key)](std::int64_t index) mutable {
          return options.mean + options.stddev * numbers.normal(index);
        };
      });
}

void add_random_normal(Catalog& catalog) {
  catalog.add<Initializer, RandomNormalOptions>("RandomNormal", {"random_normal", "normal"},
                                                RandomNormal);
}

}  // namespace meshwork

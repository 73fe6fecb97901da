#include "layers/initializers/truncated_normal.h"

#include "runtime/graph/layer_config.h"
#include "runtime/graph/make_initializer.h"

namespace meshwork {

template <class Visitor>
void describe(TruncatedNormalOptions& options, Visitor& option) {
  option.about("a normal distribution, cut off at two standard deviations");
  option("mean", options.mean, any_finite, "mean");
  option("stddev", options.stddev, finite_not_negative,
         "standard deviation, before values are cut off");
}

Initializer TruncatedNormal(const TruncatedNormalOptions& options) {
  return make_initializer(
      "truncated_normal", options, [options](const InitializedVariable& variable) -> ElementValue {
        return [options, numbers = RandomNumbers(variable.key)](std::int64_t index) mutable {
          return options.mean + options.stddev * numbers.truncated_normal(index);
        };
      });
}

void add_truncated_normal(Catalog& catalog) {
  catalog.add<Initializer, TruncatedNormalOptions>("TruncatedNormal", {"truncated_normal"},
                                                   TruncatedNormal);
}

}  // namespace meshwork

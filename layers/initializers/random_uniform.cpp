#include "layers/initializers/random_uniform.h"

#include "runtime/graph/layer_config.h"
#include "runtime/graph/make_initializer.h"

namespace meshwork {

template <class Visitor>
void describe(RandomUniformOptions& options, Visitor& option) {
  option.about("a uniform distribution");
  option("minval", options.minval, any_finite, "lower end");
  option("maxval", options.maxval, any_finite, "upper end");
}

Initializer RandomUniform(const RandomUniformOptions& options) {
  return make_initializer(
      "random_uniform", options, [options](const InitializedVariable& variable) -> ElementValue {
        return [minimum = options.minval, spread = options.maxval - options.minval,
                numbers = RandomNumbers(variable.key)](std::int64_t index) mutable {
          return minimum + spread * numbers.uniform(index);
        };
      });
}

void add_random_uniform(Catalog& catalog) {
  catalog.add<Initializer, RandomUniformOptions>("RandomUniform", {"random_uniform", "uniform"},
                                                 RandomUniform);
}

}  // namespace meshwork

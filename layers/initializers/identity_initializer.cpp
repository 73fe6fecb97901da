#include "layers/initializers/identity_initializer.h"

#include "collectives/error.h"
#include "runtime/graph/layer_config.h"
#include "runtime/graph/make_initializer.h"

namespace meshwork {

template <class Visitor>
void describe(IdentityInitializerOptions& options, Visitor& option) {
  option.about("gain on the diagonal of a matrix, else 0");
  option("gain", options.gain, any_finite, "factor of the matrix");
}

Initializer IdentityInitializer(const IdentityInitializerOptions& options) {
  return make_initializer(
      "identity", options,
      [gain = options.gain](const InitializedVariable& variable) -> ElementValue {
        return [gain, width = variable.shape.back()](std::int64_t index) {
          return index / width == index % width ? gain : 0.0;
        };
      },
      [](const Shape& shape) {
        if (shape.size() != 2) {
          fail("an identity is a matrix: expected two dimensions, found shape {}",
               to_string(shape));
        }
      });
}

void add_identity_initializer(Catalog& catalog) {
  catalog.add<Initializer, IdentityInitializerOptions>("Identity", {"identity"},
                                                       IdentityInitializer);
}

}  // namespace meshwork

#include "layers/initializers/constant.h"

#include "runtime/graph/layer_config.h"
#include "runtime/graph/make_initializer.h"

namespace meshwork {

template <class Visitor>
void describe(ConstantOptions& options, Visitor& option) {
  option.about("one value everywhere");
  option("value", options.value, any_finite, "the value");
}

Initializer Constant(const ConstantOptions& options) {
  return make_initializer("constant", options,
                          [value = options.value](const InitializedVariable&) -> ElementValue {
                            return [value](std::int64_t) { return value; };
                          });
}

void add_constant(Catalog& catalog) {
  catalog.add<Initializer, ConstantOptions>("Constant", {"constant"}, Constant);
}

}  // namespace meshwork

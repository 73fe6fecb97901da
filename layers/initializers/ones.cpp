#include "layers/initializers/ones.h"

#include "runtime/graph/layer_config.h"
#include "runtime/graph/make_initializer.h"

namespace meshwork {

namespace {

struct OnesOptions {};

}  // namespace

template <class Visitor>
void describe(OnesOptions&, Visitor& option) {
  option.about("1 everywhere");
}

Initializer Ones() {
  return make_initializer("ones", OnesOptions(), [](const InitializedVariable&) -> ElementValue {
    return [](std::int64_t) { return 1.0; };
  });
}

void add_ones(Catalog& catalog) {
  catalog.add<Initializer, OnesOptions>("Ones", {"ones"},
                                        [](const OnesOptions&) { return Ones(); });
}

}  // namespace meshwork

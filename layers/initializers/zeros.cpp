#include "layers/initializers/zeros.h"

#include "runtime/graph/layer_config.h"
#include "runtime/graph/make_initializer.h"

namespace meshwork {

namespace {

struct ZerosOptions {};

}  // namespace

template <class Visitor>
void describe(ZerosOptions&, Visitor& option) {
  option.about("0 everywhere");
}

Initializer Zeros() {
  return make_initializer("zeros", ZerosOptions(), [](const InitializedVariable&) -> ElementValue {
    return [](std::int64_t) { return 0.0; };
  });
}

void add_zeros(Catalog& catalog) {
  catalog.add<Initializer, ZerosOptions>("Zeros", {"zeros"},
                                         [](const ZerosOptions&) { return Zeros(); });
}

}  // namespace meshwork

#include "layers/initializers/zeros.h"

#include "runtime/graph/layer_config.h"

namespace meshwork {

namespace {

struct ZerosOptions {};

}  // namespace

template <class Visitor>
void describe(ZerosOptions&, Visitor& option) {
  option.about("0 everywhere");
}

Initializer Zeros() {
  return {};
}

void add_zeros(Catalog& catalog) {
  catalog.add<Initializer, ZerosOptions>("Zeros", {"zeros"},
                                         [](const ZerosOptions&) { return Zeros(); });
}

}  // namespace meshwork

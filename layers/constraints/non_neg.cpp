#include "layers/constraints/non_neg.h"

#include "runtime/device/kernels/elementwise.h"
#include "runtime/graph/layer_config.h"

namespace meshwork {
namespace {

struct NonNegOptions {};

}  // namespace

template <class Visitor>
void describe(NonNegOptions&, Visitor& option) {
  option.about("sets negative values to 0 after each update");
}

Constraint NonNeg() {
  return {.name = "non_neg", .elements = [](std::int64_t count) { return RectifySpec{{}, count}; }};
}

void add_non_neg(Catalog& catalog) {
  catalog.add<Constraint, NonNegOptions>("NonNeg", {"non_neg"},
                                         [](const NonNegOptions&) { return NonNeg(); });
}

}  // namespace meshwork

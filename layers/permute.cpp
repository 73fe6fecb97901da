#include "layers/permute.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "collectives/error.h"
#include "collectives/joined_text.h"
#include "layers/layer_of.h"
#include "runtime/graph/operations/permute.h"

namespace meshwork {

template <class Visitor>
void describe(PermuteOptions& options, Visitor& option) {
  option.about("dimensions of a sample in another order");
  describe_name(options, option);
  option.required("dims", options.dims, positive, "the new order, counted from 1");
}

SharedLayer Permute(PermuteOptions options) {
  std::vector<int> sorted = options.dims;
  std::sort(sorted.begin(), sorted.end());
  bool once = !sorted.empty();
  for (std::size_t d = 0; d < sorted.size(); ++d) {
    once = once && sorted[d] == static_cast<int>(d) + 1;
  }
  if (!once) {
    fail("{}: `dims` is ({}); expected a permutation of the dimensions of a sample, counted from 1",
         called(options.name, "Permute"), joined_text(options.dims, ", "));
  }
  return layer_of("Permute", std::move(options),
                  [](const PermuteOptions& of, LayerBuilder& builder, TensorId x) {
                    std::vector<int> order = of.dims;
                    order.insert(order.begin(), 0);  // the batch stays
                    return builder.apply(std::make_unique<PermuteOperation>(order), {x});
                  });
}

void add_permute(Catalog& catalog) {
  catalog.add<SharedLayer, PermuteOptions>("Permute", {}, Permute);
}

}  // namespace meshwork

#include "layers/permute.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "collectives/error.h"
#include "layers/one_input.h"
#include "runtime/graph/layer_config.h"
#include "runtime/graph/operations/permute.h"

namespace meshwork {
namespace {

class PermuteLayer final : public Layer {
 public:
  explicit PermuteLayer(PermuteOptions options)
      : Layer(std::move(options.name)), order_(std::move(options.dims)) {
    order_.insert(order_.begin(), 0);  // the batch stays
  }

  std::string class_name() const override { return "Permute"; }

  TensorId build(LayerBuilder& builder, std::span<const TensorId> inputs) const override {
    return builder.apply(std::make_unique<PermuteOperation>(order_), {one_input(inputs)});
  }

 private:
  std::vector<int> order_;
};

}  // namespace

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
    fail(
        "{}: `dims` is ({}); it has to be an order of the dimensions of a sample, 1 to their "
        "number",
        called(options.name, "Permute"), fmt::join(options.dims, ", "));
  }
  return SharedLayer(std::make_shared<PermuteLayer>(std::move(options)));
}

void add_permute(Catalog& catalog) {
  catalog.add<SharedLayer, PermuteOptions>("Permute", {}, Permute);
}

}  // namespace meshwork

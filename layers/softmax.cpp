#include "layers/softmax.h"

#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "layers/one_input.h"
#include "runtime/graph/layer_config.h"
#include "runtime/graph/operations/permute.h"
#include "runtime/graph/operations/softmax.h"

namespace meshwork {
namespace {

class SoftmaxLayer final : public Layer {
 public:
  explicit SoftmaxLayer(SoftmaxOptions options)
      : Layer(std::move(options.name)), axis_(options.axis) {}
  std::string class_name() const override { return "Softmax"; }

  TensorId build(LayerBuilder& builder, std::span<const TensorId> inputs) const override {
    const TensorId x = one_input(inputs);
    const Shape& shape = builder.shape(x);
    const int count = static_cast<int>(shape.size());
    const int classes = axis_ < 0 ? axis_ + count : axis_;
    if (classes < 1 || classes >= count) {
      fail("`axis` is {}, but the classes of an input of shape {} can be dimensions 1 to {}", axis_,
           to_string(shape), count - 1);
    }
    if (classes == count - 1) {
      return builder.apply(std::make_unique<SoftmaxOperation>(), {x});
    }
    // The classes exchange their place with the last dimension, and back.
    std::vector<int> exchanged(count);
    std::iota(exchanged.begin(), exchanged.end(), 0);
    std::swap(exchanged[classes], exchanged.back());
    const TensorId last = builder.apply(std::make_unique<PermuteOperation>(exchanged), {x});
    const TensorId y = builder.apply(std::make_unique<SoftmaxOperation>(), {last});
    return builder.apply(std::make_unique<PermuteOperation>(exchanged), {y});
  }

 private:
  int axis_;
};

}  // namespace

template <class Visitor>
void describe(SoftmaxOptions& options, Visitor& option) {
  option.about("exp(x) / sum of exp(x) over one dimension");
  describe_name(options, option);
  option("axis", options.axis, "the dimension; -1: the last");
}

SharedLayer Softmax(SoftmaxOptions options) {
  return SharedLayer(std::make_shared<SoftmaxLayer>(std::move(options)));
}

void add_softmax(Catalog& catalog) {
  catalog.add<SharedLayer, SoftmaxOptions>("Softmax", {}, Softmax);
}

}  // namespace meshwork

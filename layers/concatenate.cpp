#include "layers/concatenate.h"

#include <memory>
#include <utility>

#include "collectives/error.h"
#include "runtime/graph/layer_config.h"
#include "runtime/graph/operations/concatenate.h"

namespace meshwork {
namespace {

class ConcatenateLayer final : public Layer {
 public:
  explicit ConcatenateLayer(const ConcatenateOptions& options)
      : Layer(options.name), axis_(options.axis) {}
  std::string class_name() const override { return "Concatenate"; }

  TensorId build(LayerBuilder& builder, std::span<const TensorId> inputs) const override {
    const Shape& shape = builder.shape(inputs[0]);
    const int count = static_cast<int>(shape.size());
    const int dimension = axis_ < 0 ? axis_ + count : axis_;
    if (dimension == 0) {
      fail("`axis` {} is the batch of inputs of shape {}; batches cannot be concatenated", axis_,
           to_string(shape));
    }
    if (dimension < 0 || dimension >= count) {
      fail("`axis` is {}, but inputs of shape {} have dimensions 0 to {}", axis_, to_string(shape),
           count - 1);
    }
    for (std::size_t i = 1; i < inputs.size(); ++i) {
      Shape other = builder.shape(inputs[i]);
      if (other.size() == shape.size()) {
        other[dimension] = shape[dimension];
      }
      if (other != shape) {
        fail(
            "expected inputs that differ in dimension {} only, found {} for input 0 and {} for "
            "input {}",
            dimension, to_string(shape), to_string(builder.shape(inputs[i])), i);
      }
    }
    return builder.apply(
        std::make_unique<ConcatenateOperation>(static_cast<int>(inputs.size()), dimension),
        {inputs.begin(), inputs.end()});
  }

 private:
  int axis_;
};

}  // namespace

template <class Visitor>
void describe(ConcatenateOptions& options, Visitor& option) {
  option.about("inputs joined along one dimension");
  describe_name(options, option);
  option("axis", options.axis, "the dimension; -1: the last");
}

SharedLayer Concatenate(ConcatenateOptions options) {
  return SharedLayer(std::make_shared<ConcatenateLayer>(options));
}

void add_concatenate(Catalog& catalog) {
  catalog.add<SharedLayer, ConcatenateOptions>("Concatenate", {}, Concatenate);
}

}  // namespace meshwork

#include "layers/reshape.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "collectives/error.h"
#include "layers/one_input.h"
#include "runtime/graph/layer_config.h"
#include "runtime/graph/operations/reshape.h"

namespace meshwork {
namespace {

// "(4, -1)"; to_string of a shape would call -1 a batch.
std::string written(const Shape& target) {
  return fmt::format("({})", fmt::join(target, ", "));
}

class ReshapeLayer final : public Layer {
 public:
  explicit ReshapeLayer(ReshapeOptions options)
      : Layer(options.name), target_(std::move(options.target_shape)) {}
  std::string class_name() const override { return "Reshape"; }

  TensorId build(LayerBuilder& builder, std::span<const TensorId> inputs) const override {
    const TensorId x = one_input(inputs);
    const Shape& shape = builder.shape(x);
    const std::int64_t total = element_count(std::span(shape).subspan(1));
    Shape sample = target_;
    const auto open = std::find(sample.begin(), sample.end(), -1);
    if (open != sample.end()) {
      *open = 1;
      const std::int64_t others = element_count(sample);
      if (total % others != 0) {
        fail(
            "cannot give an input of shape {}, which has {} elements a sample, the shape {}: {} "
            "does not divide them",
            to_string(shape), total, written(target_), others);
      }
      *open = total / others;
    } else if (element_count(sample) != total) {
      fail(
          "cannot give an input of shape {}, which has {} elements a sample, the shape {}, which "
          "has {}",
          to_string(shape), total, written(target_), element_count(sample));
    }
    return builder.apply(std::make_unique<ReshapeOperation>(sample), {x});
  }

 private:
  Shape target_;
};

}  // namespace

template <class Visitor>
void describe(ReshapeOptions& options, Visitor& option) {
  option.about("another shape of the same elements");
  describe_name(options, option);
  option.required("target_shape", options.target_shape,
                  "shape of a sample; one length may be -1: what the others leave");
}

SharedLayer Reshape(ReshapeOptions options) {
  const Shape& target = options.target_shape;
  const std::string name = called(options.name, "Reshape");
  if (std::count(target.begin(), target.end(), -1) > 1) {
    fail("{}: `target_shape` {} leaves several lengths open; at most one may be -1", name,
         written(target));
  }
  for (const std::int64_t length : target) {
    if (length < 1 && length != -1) {
      fail("{}: `target_shape` {} has a length of {}; lengths are positive, and one may be -1",
           name, written(target), length);
    }
  }
  return SharedLayer(std::make_shared<ReshapeLayer>(std::move(options)));
}

void add_reshape(Catalog& catalog) {
  catalog.add<SharedLayer, ReshapeOptions>("Reshape", {}, Reshape);
}

}  // namespace meshwork

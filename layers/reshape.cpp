#include "layers/reshape.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "collectives/error.h"
#include "collectives/joined_text.h"
#include "layers/layer_of.h"
#include "runtime/graph/operations/reshape.h"

namespace meshwork {
namespace {

// "(4, -1)"; to_string of a shape would call -1 a batch.
std::string written(const Shape& target) {
  return fmt::format("({})", joined_text(target, ", "));
}

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
  return layer_of(
      "Reshape", std::move(options),
      [](const ReshapeOptions& of, LayerBuilder& builder, TensorId x) {
        const Shape& shape = builder.shape(x);
        const std::int64_t total = element_count(std::span(shape).subspan(1));
        Shape sample = of.target_shape;
        const auto open = std::find(sample.begin(), sample.end(), -1);
        if (open != sample.end()) {
          *open = 1;
          const std::int64_t others = element_count(sample);
          if (total % others != 0) {
            fail(
                "cannot give an input of shape {}, which has {} elements a sample, the shape {}: "
                "{} does not divide them",
                to_string(shape), total, written(of.target_shape), others);
          }
          *open = total / others;
        }
        return builder.apply(std::make_unique<ReshapeOperation>(sample), {x});
      });
}

void add_reshape(Catalog& catalog) {
  catalog.add<SharedLayer, ReshapeOptions>("Reshape", {}, Reshape);
}

}  // namespace meshwork

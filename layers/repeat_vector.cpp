#include "layers/repeat_vector.h"

#include <memory>
#include <utility>
#include <vector>

#include "layers/layer_of.h"
#include "layers/spatial.h"
#include "runtime/graph/operations/reshape.h"
#include "runtime/graph/operations/upsampling.h"

namespace meshwork {

template <class Visitor>
void describe(RepeatVectorOptions& options, Visitor& option) {
  option.about("a vector repeated as the steps of a sequence");
  describe_name(options, option);
  option.required("n", options.n, length, "number of steps");
}

SharedLayer RepeatVector(RepeatVectorOptions options) {
  return layer_of(
      "RepeatVector", std::move(options),
      [](const RepeatVectorOptions& of, LayerBuilder& builder, TensorId x) {
        const Shape shape = builder.shape(x);
        if (shape.size() != 2) {
          fail("expected vectors of shape (batch, features), found shape {}", to_string(shape));
        }
        // A sequence of one step, enlarged.
        const TensorId step =
            builder.apply(std::make_unique<ReshapeOperation>(Shape{1, shape[1]}), {x});
        return builder.apply(
            std::make_unique<UpsamplingOperation>(std::vector{of.n}, Interpolation::nearest),
            {step});
      });
}

void add_repeat_vector(Catalog& catalog) {
  catalog.add<SharedLayer, RepeatVectorOptions>("RepeatVector", {}, RepeatVector);
}

}  // namespace meshwork

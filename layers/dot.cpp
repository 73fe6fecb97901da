#include "layers/dot.h"

#include <array>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "layers/along_dimension.h"
#include "layers/layer_of.h"
#include "runtime/graph/operations/contraction.h"
#include "runtime/graph/operations/dimensions.h"
#include "runtime/graph/operations/reshape.h"
#include "runtime/graph/operations/unit_rows.h"

namespace meshwork {

void from_config(const ConfigNode& node, DotAxes& axes) {
  if (!node.is_sequence()) {
    axes = node.as<int>();
    return;
  }
  const auto both = node.as<std::vector<int>>();
  if (both.size() != 2) {
    node.fail("expected one dimension, or one of each of two inputs, found {}", both.size());
  }
  axes = {both[0], both[1]};
}

std::string to_text(const DotAxes& axes) {
  return fmt::format("({}, {})", axes.of[0], axes.of[1]);
}

template <class Visitor>
void describe(DotOptions& options, Visitor& option) {
  option.about("samples of two inputs multiplied and summed along a dimension of each");
  describe_name(options, option);
  option.required("axes", options.axes, "the dimension of both, or [of the first, of the second]");
  option("normalize", options.normalize, "normalize vectors along it to length 1 first");
}

SharedLayer Dot(DotOptions options) {
  return layer_of(
      "Dot", std::move(options),
      [](const DotOptions& of, LayerBuilder& builder, std::span<const TensorId> inputs) {
        if (inputs.size() != 2) {
          fail("expected two inputs, found {}", inputs.size());
        }
        std::array<TensorId, 2> x{inputs[0], inputs[1]};
        std::array<std::string, 2> letters;
        std::string rest =
            dimension_letters(builder.shape(x[0]).size() + builder.shape(x[1]).size());
        std::string output = rest.substr(0, 1);
        std::array<std::int64_t, 2> lengths{};
        for (std::size_t input : {0, 1}) {
          const Shape shape = builder.shape(x[input]);
          const int count = static_cast<int>(shape.size());
          const int given = of.axes.of[input];
          const int axis = given < 0 ? given + count : given;
          if (axis < 1 || axis >= count) {
            fail("`axes` has {}, but the dimensions of an input of shape {} are 1 to {}", given,
                 to_string(shape), count - 1);
          }
          lengths[input] = shape[axis];
          letters[input] = rest.substr(0, 1);
          for (int d = 1; d < count; ++d) {
            letters[input] += d == axis ? 'i' : rest[input == 0 ? d : d + letters[0].size()];
            if (d != axis) output += letters[input].back();
          }
          if (of.normalize) {
            // Keras's least length of a vector here.
            x[input] = along_dimension<UnitRowsOperation>(builder, x[input], axis, "vectors", 1e7f);
          }
        }
        if (lengths[0] != lengths[1]) {
          fail("expected `axes` of equal lengths, found {} and {}", lengths[0], lengths[1]);
        }
        const TensorId y = builder.apply(
            std::make_unique<ContractionOperation>(letters[0] + "," + letters[1] + "->" + output),
            {x[0], x[1]});
        return output.size() > 1 ? y
                                 : builder.apply(std::make_unique<ReshapeOperation>(Shape{1}), {y});
      });
}

void add_dot(Catalog& catalog) {
  catalog.add<SharedLayer, DotOptions>("Dot", {}, Dot);
}

}  // namespace meshwork

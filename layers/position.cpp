#include "layers/position.h"

#include <memory>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "layers/layer_of.h"
#include "layers/spatial.h"
#include "runtime/graph/operations/repeat.h"
#include "runtime/graph/operations/rotary.h"
#include "runtime/graph/operations/zero_padding.h"

namespace meshwork {

template <class Visitor>
void describe(PositionEmbeddingOptions& options, Visitor& option) {
  option.about("a learned vector for each place of a sequence; Add adds it to the tokens'");
  describe_name(options, option);
  option.required("sequence_length", options.sequence_length, length,
                  "places of the longest sequence");
  option("initializer", options.initializer, "initial vectors");
  option("regularizer", options.regularizer, "penalty on the vectors");
  option("trainable", options.trainable, "train the vectors; false: keep them fixed");
}
template <class Visitor>
void describe(RotaryEmbeddingOptions& options, Visitor& option) {
  option.about("vectors turned by their places in a sequence");
  describe_name(options, option);
  option("max_wavelength", options.max_wavelength, positive, "base of the angles");
  option("scaling_factor", options.scaling_factor, positive, "places are divided by it");
}

SharedLayer PositionEmbedding(PositionEmbeddingOptions options) {
  return layer_of("PositionEmbedding", std::move(options),
                  [](const PositionEmbeddingOptions& of, LayerBuilder& builder, TensorId x) {
                    const Shape shape = builder.shape(x);
                    if (shape.size() != 3 || shape[1] > of.sequence_length) {
                      fail(
                          "expected sequences of at most {} places, of shape (batch, places, "
                          "features), found {}",
                          of.sequence_length, to_string(shape));
                    }
                    TensorId table =
                        builder.variable("embeddings", {.shape = {of.sequence_length, shape[2]},
                                                        .initializer = of.initializer,
                                                        .regularizer = of.regularizer});
                    if (shape[1] < of.sequence_length) {
                      std::vector<Border> behind{{0, shape[1] - of.sequence_length}};
                      table = builder.apply(
                          std::make_unique<ZeroPaddingOperation>(std::move(behind), 0), {table});
                    }
                    return builder.apply(std::make_unique<RepeatOperation>(), {x, table});
                  });
}

SharedLayer RotaryEmbedding(RotaryEmbeddingOptions options) {
  return layer_of("RotaryEmbedding", std::move(options),
                  [](const RotaryEmbeddingOptions& of, LayerBuilder& builder, TensorId x) {
                    return builder.apply(
                        std::make_unique<RotaryOperation>(of.max_wavelength, of.scaling_factor),
                        {x});
                  });
}

void add_position(Catalog& catalog) {
  catalog.add<SharedLayer, PositionEmbeddingOptions>("PositionEmbedding", {}, PositionEmbedding);
  catalog.add<SharedLayer, RotaryEmbeddingOptions>("RotaryEmbedding", {}, RotaryEmbedding);
}

}  // namespace meshwork

#include "layers/embedding.h"

#include <limits>
#include <memory>
#include <utility>

#include "layers/layer_of.h"
#include "layers/spatial.h"
#include "runtime/graph/operations/embedding.h"

namespace meshwork {

template <class Visitor>
void describe(EmbeddingOptions& options, Visitor& option) {
  option.about("a learned vector for each number; takes an input of dtype int32");
  describe_name(options, option);
  option.required("input_dim", options.input_dim,
                  positive.up_to(std::numeric_limits<std::int32_t>::max()),
                  "how many numbers there are: 0, 1, ...");
  option.required("output_dim", options.output_dim, length, "length of a vector");
  option("embeddings_initializer", options.embeddings_initializer, "initial vectors");
  option("embeddings_regularizer", options.embeddings_regularizer, "penalty on the vectors");
  option("trainable", options.trainable, "train the vectors; false: they stay as they are");
}

SharedLayer Embedding(EmbeddingOptions options) {
  return layer_of(
      "Embedding", std::move(options),
      [](const EmbeddingOptions& of, LayerBuilder& builder, TensorId x) {
        const TensorId table =
            builder.variable("embeddings", {.shape = {of.input_dim, of.output_dim},
                                            .initializer = of.embeddings_initializer,
                                            .regularizer = of.embeddings_regularizer});
        return builder.apply(std::make_unique<EmbeddingOperation>(of.input_dim), {x, table});
      });
}

void add_embedding(Catalog& catalog) {
  catalog.add<SharedLayer, EmbeddingOptions>("Embedding", {}, Embedding);
}

}  // namespace meshwork

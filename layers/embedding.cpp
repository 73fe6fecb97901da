#include "layers/embedding.h"

#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "layers/layer_of.h"
#include "layers/spatial.h"
#include "runtime/graph/operations/activation.h"
#include "runtime/graph/operations/affine.h"
#include "runtime/graph/operations/contraction.h"
#include "runtime/graph/operations/dimensions.h"
#include "runtime/graph/operations/document_starts.h"
#include "runtime/graph/operations/embedding.h"
#include "runtime/graph/operations/mask.h"

namespace meshwork {

namespace {

template <class Options, class Visitor>
void describe_table(Options& options, Visitor& option) {
  describe_name(options, option);
  option.required("input_dim", options.input_dim,
                  positive.up_to(std::numeric_limits<std::int32_t>::max()),
                  "size of the vocabulary; inputs are 0 to input_dim - 1");
  option.required("output_dim", options.output_dim, length, "length of a vector");
  option("mask_zero", options.mask_zero,
         "treat 0 as padding, which attention, means over places, losses and metrics ignore");
  option("document_end", options.document_end,
         at_least(no_end).up_to(std::numeric_limits<std::int32_t>::max()),
         "number that ends a document; causal attention stays within its document, positions do "
         "not restart; -1: none");
  describe_variable(option, "embeddings", "the vectors", options.embeddings_initializer,
                    options.embeddings_regularizer, options.embeddings_constraint);
  option("trainable", options.trainable, "train the vectors; false: keep them fixed");
}

// A variable of the layer, by the options of its vectors.
template <class Options>
TensorId table_of(const Options& of, LayerBuilder& builder, const std::string& name, Shape shape) {
  return builder.variable(name, {.shape = std::move(shape),
                                 .initializer = of.embeddings_initializer,
                                 .regularizer = of.embeddings_regularizer,
                                 .constraint = of.embeddings_constraint});
}

template <class Options>
TensorId embed(const Options& of, LayerBuilder& builder, TensorId x) {
  const TensorId table = table_of(of, builder, "embeddings", {of.input_dim, of.output_dim});
  const TensorId y = builder.apply(std::make_unique<EmbeddingOperation>(of.input_dim), {x, table});
  if (of.mask_zero) {
    if (builder.shape(x).size() < 2) {
      fail("mask_zero: expected sequences of numbers, of shape (batch, length), found {}",
           to_string(builder.shape(x)));
    }
    const MaskOptions mask{.type = ElementType::int32, .dimensions = builder.shape(x).size()};
    builder.set_mask(y, builder.apply(std::make_unique<MaskOperation>(mask), {x}));
  }
  if (of.document_end != no_end) {
    const auto end = static_cast<std::int32_t>(of.document_end);
    if (of.document_end >= of.input_dim) {
      fail("document_end: expected one of the numbers from 0 to {}, found {}", of.input_dim - 1,
           end);
    }
    builder.set_documents(y, builder.document_starts(x, end));
  }
  return y;
}

// "btd,vd->btv", or "btd,dv->btv".
TensorId reverse(const ReversibleEmbeddingOptions& of, LayerBuilder& builder, TensorId x) {
  std::string letters = dimension_letters(builder.shape(x).size(), 'i');
  const std::string equation = letters + (of.tie_weights ? ",oi->" : ",io->");
  letters.back() = 'o';
  // As in Keras, a table of its own is neither charged nor constrained.
  const TensorId table =
      of.tie_weights
          ? table_of(of, builder, "embeddings", {of.input_dim, of.output_dim})
          : builder.variable("reverse_embeddings", {.shape = {of.output_dim, of.input_dim},
                                                    .initializer = of.embeddings_initializer});
  TensorId y =
      builder.apply(std::make_unique<ContractionOperation>(equation + letters), {x, table});
  builder.set_mask(y, -1);  // as in Keras
  if (of.logit_soft_cap == 0) return y;
  y = builder.apply(std::make_unique<AffineOperation>(1 / of.logit_soft_cap, 0.0f), {y});
  y = builder.apply(make_activation(Activation::tanh), {y});
  return builder.apply(std::make_unique<AffineOperation>(of.logit_soft_cap, 0.0f), {y});
}

}  // namespace

template <class Visitor>
void describe(EmbeddingOptions& options, Visitor& option) {
  option.about("a learned vector for each number; takes an input of dtype int32");
  describe_table(options, option);
}
template <class Visitor>
void describe(ReversibleEmbeddingOptions& options, Visitor& option) {
  option.about("vectors of numbers; a call on vectors gives their products with the whole table");
  describe_table(options, option);
  option("tie_weights", options.tie_weights,
         "use one table in both directions; false: one for each");
  option("logit_soft_cap", options.logit_soft_cap, at_least(0),
         "bound c of the products, by tanh(y / c) * c; 0: none");
}

SharedLayer Embedding(EmbeddingOptions options) {
  return layer_of("Embedding", std::move(options), embed<EmbeddingOptions>);
}

SharedLayer ReversibleEmbedding(ReversibleEmbeddingOptions options) {
  return layer_of("ReversibleEmbedding", std::move(options),
                  [](const ReversibleEmbeddingOptions& of, LayerBuilder& builder, TensorId x) {
                    return builder.type(x) == ElementType::int32 ? embed(of, builder, x)
                                                                 : reverse(of, builder, x);
                  });
}

void add_embedding(Catalog& catalog) {
  catalog.add<SharedLayer, EmbeddingOptions>("Embedding", {}, Embedding);
  catalog.add<SharedLayer, ReversibleEmbeddingOptions>("ReversibleEmbedding", {},
                                                       ReversibleEmbedding);
}

}  // namespace meshwork

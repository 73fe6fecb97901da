// Embedding: numbers, such as tokens, become vectors that are learned.
#pragma once

#include <cstdint>
#include <string>

#include "layers/initializers/random_uniform.h"
#include "runtime/graph/layer.h"

namespace meshwork {

/// No number ends a document: sequences are one document each.
inline constexpr std::int64_t no_end = -1;

struct EmbeddingOptions {
  std::string name;
  std::int64_t input_dim = 0;          // how many numbers there are; has to be given
  std::int64_t output_dim = 0;         // length of a vector; has to be given
  bool mask_zero = false;              // places of the number 0 do not count
  std::int64_t document_end = no_end;  // the number that ends a document
  Initializer embeddings_initializer = RandomUniform();
  Regularizer embeddings_regularizer;
  Constraint embeddings_constraint;
  bool trainable = true;
};

/// y (batch, ..., output_dim) = the rows of `embeddings` (input_dim, output_dim) with the numbers x
/// (batch, ...), which are int32 and of [0, input_dim) (keras.io/api/layers/core_layers/embedding).
/// With `mask_zero` y has a mask (runtime/graph/operations/mask.h) that counts all but the zeros.
/// With `document_end` y has documents (runtime/graph/operations/document_starts.h): up to that
/// number, and on behind it. Causal attention keeps them apart. Places are counted on through all
/// of them. Throws `Error` for options that are not positive; when called, for an input that is not
/// int32.
[[nodiscard]] SharedLayer Embedding(EmbeddingOptions options);

struct ReversibleEmbeddingOptions {
  std::string name;
  std::int64_t input_dim = 0;
  std::int64_t output_dim = 0;
  bool mask_zero = false;
  std::int64_t document_end = no_end;
  bool tie_weights = true;   // the way back takes the same table; false: one of its own
  float logit_soft_cap = 0;  // c: the way back gives tanh(y / c) * c; 0: y
  Initializer embeddings_initializer = RandomUniform();
  Regularizer embeddings_regularizer;
  Constraint embeddings_constraint;
  bool trainable = true;
};

/// Both ways: called on numbers, as Embedding; called on vectors x (batch, ..., output_dim), their
/// products with all rows of the table, (batch, ..., input_dim), without a mask
/// (keras.io/api/layers/core_layers/reversible_embedding). Variables: `embeddings` (input_dim,
/// output_dim), and without `tie_weights` `reverse_embeddings` (output_dim, input_dim).
[[nodiscard]] SharedLayer ReversibleEmbedding(ReversibleEmbeddingOptions options);

}  // namespace meshwork

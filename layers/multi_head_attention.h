// Attention over heads: each place of a sequence takes from the others what resembles its query.
#pragma once

#include <cstdint>
#include <string>

#include "layers/initializers/glorot.h"
#include "layers/initializers/zeros.h"
#include "runtime/graph/layer.h"

namespace meshwork {

struct MultiHeadAttentionOptions {
  std::string name;
  std::int64_t num_heads = 0;             // has to be given
  std::int64_t key_dim = 0;               // length of a head's queries and keys; has to be given
  std::optional<std::int64_t> value_dim;  // length of a head's values; none: key_dim
  float dropout = 0;                      // share of the probabilities set to 0 in training
  bool use_bias = true;                   // add biases to queries, keys, values and output
  bool use_causal_mask = false;           // a place looks at itself and those before it alone
  std::int64_t sliding_window = 0;  // a place looks at those fewer than so many away; 0: at all
  double rope_max_wavelength = 0;   // turn queries and keys as RotaryEmbedding does; 0: do not
  Initializer kernel_initializer = GlorotUniform();
  Initializer bias_initializer = Zeros();
  Regularizer kernel_regularizer;
  Regularizer bias_regularizer;
  Constraint kernel_constraint;
  Constraint bias_constraint;
  bool trainable = true;
  /// "query_dense" and so on; "output_dense".
  [[nodiscard]] static std::string part_in_keras(const std::string& part);
};

/// Attends from queries (batch, queries, features) to keys and values (batch, keys, features).
/// Missing values are the queries; missing keys are the values. `use_causal_mask` needs as many
/// keys as queries.
///
///     q, k, v = sequence * kernel + bias     (batch, length, heads, key_dim or value_dim)
///     p = softmax over keys of q . k / sqrt(key_dim)
///     y = (sum over keys of p * v) * output kernel + output bias     (batch, queries, features)
///
/// (Vaswani et al., arXiv:1706.03762; keras.io/api/layers/attention_layers/multi_head_attention).
/// Called on (query), (query, value) or (query, value, key). Variables: `query`, `key`, `value`,
/// each with `kernel` (features, heads, length) and `bias` (heads, length), and `attention_output`
/// with `kernel` (heads, value_dim, features) and `bias` (features). Masks of keys and values
/// (runtime/graph/operations/mask.h) say which places are looked at; y has the query's. Causal
/// attention looks at places of the query's own document
/// (runtime/graph/operations/document_starts.h) alone. Throws `Error` for options out of range;
/// when called, for sequences that do not go together.
[[nodiscard]] SharedLayer MultiHeadAttention(MultiHeadAttentionOptions options);

struct GroupQueryAttentionOptions {
  std::string name;
  std::int64_t head_dim = 0;             // length of a head's vectors; has to be given
  std::int64_t num_query_heads = 0;      // has to be given
  std::int64_t num_key_value_heads = 0;  // divides num_query_heads; has to be given
  float dropout = 0;
  bool use_bias = true;
  bool use_causal_mask = false;
  std::int64_t sliding_window = 0;
  double rope_max_wavelength = 0;
  Initializer kernel_initializer = GlorotUniform();
  Initializer bias_initializer = Zeros();
  Regularizer kernel_regularizer;
  Regularizer bias_regularizer;
  Constraint kernel_constraint;
  Constraint bias_constraint;
  bool trainable = true;
  /// "_query_dense" and so on.
  [[nodiscard]] static std::string part_in_keras(const std::string& part);
};

/// The same where each head of keys and values serves several of queries: query head u looks at
/// head floor(u * num_key_value_heads / num_query_heads) (Ainslie et al., arXiv:2305.13245;
/// keras.io/api/layers/attention_layers/group_query_attention). Variables of the same names.
[[nodiscard]] SharedLayer GroupQueryAttention(GroupQueryAttentionOptions options);

}  // namespace meshwork

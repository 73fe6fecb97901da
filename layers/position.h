// Where a place of a sequence is: learned vectors, and vectors that are turned.
#pragma once

#include <cstdint>
#include <string>

#include "layers/initializers/glorot.h"
#include "runtime/graph/layer.h"

namespace meshwork {

struct PositionEmbeddingOptions {
  std::string name;
  std::int64_t sequence_length = 0;  // places of the longest sequence; has to be given
  Initializer initializer = GlorotUniform();
  Regularizer regularizer;
  bool trainable = true;
};

/// y (batch, places, features) = the first places of `embeddings` (sequence_length, features) for
/// each sample of x, of whose numbers it takes none: Add adds both
/// (keras.io/keras_hub/api/modeling_layers/position_embedding). Throws `Error` for options that are
/// not positive; when called, for an input of more places.
[[nodiscard]] SharedLayer PositionEmbedding(PositionEmbeddingOptions options);

struct RotaryEmbeddingOptions {
  std::string name;
  double max_wavelength = 10000;
  double scaling_factor = 1;
};

/// x (batch, places, ..., length) with each vector turned by its place, pair by pair: elements i
/// and i + length / 2 by the angle place / scaling_factor * max_wavelength^(-2 i / length)
/// (keras.io/keras_hub/api/modeling_layers/rotary_embedding; Su et al., arXiv:2104.09864). Throws
/// `Error` for options that are not positive; when called, for vectors of odd length.
[[nodiscard]] SharedLayer RotaryEmbedding(RotaryEmbeddingOptions options = {});

}  // namespace meshwork

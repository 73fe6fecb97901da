// CategoryEncoding: numbers of categories as vectors that dense layers read.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/graph/layer.h"

namespace meshwork {

enum class CategoryOutput : std::uint8_t { one_hot, multi_hot, count };

struct CategoryEncodingOptions {
  std::string name;
  std::int64_t num_tokens = 0;  // how many categories there are
  CategoryOutput output_mode = CategoryOutput::multi_hot;
};

/// The vector of a category c has `num_tokens` elements: 1 in place c, else 0.
/// - one_hot: a vector for each element, in a new last dimension, or in place of a last dimension
///   of 1;
/// - multi_hot: (batch, ..., n) becomes (batch, ..., num_tokens), with 1 for each category that is
///   among the n, however often;
/// - count: the same with how often each is there.
/// Data for an input that such a layer reads are checked: a number that is no whole number from 0
/// to num_tokens - 1 is an error. Of numbers that another layer makes, such a one encodes as zeros.
/// The gradient is 0. Keras's
/// (keras.io/api/layers/preprocessing_layers/categorical/category_encoding). Throws `Error` for a
/// num_tokens below 1 or above 2^24; when called, of the last two for an input without a dimension
/// of categories.
[[nodiscard]] SharedLayer CategoryEncoding(CategoryEncodingOptions options);

}  // namespace meshwork

// A small transformer whose table is at both of its ends, and samples for it and for networks of images.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "layers/add.h"
#include "layers/dense.h"
#include "layers/embedding.h"
#include "layers/layer_normalization.h"
#include "layers/multi_head_attention.h"
#include "layers/position.h"
#include "tests/support/byte_images.h"

namespace meshwork::test {

/// Over nine tokens of `classes`.
template <std::int64_t classes>
SymbolicTensor small_gpt(const SymbolicTensor& tokens) {
  const SharedLayer table =
      ReversibleEmbedding({.name = "tokens", .input_dim = classes, .output_dim = 12});
  auto x = table(tokens);
  x = Add({.name = "both"})({x, PositionEmbedding({.name = "places", .sequence_length = 11})(x)});
  for (const std::string block : {"a", "b"}) {
    auto y = LayerNormalization({.name = "norm_" + block})(x);
    y = MultiHeadAttention({.name = "attention_" + block,
                            .num_heads = 3,
                            .key_dim = 4,
                            .dropout = 0.1f,
                            .use_causal_mask = true})(y);
    x = Add({.name = "mid_" + block})({x, y});
    y = Dense({.name = "up_" + block, .units = 25, .activation = Activation::gelu_tanh})(x);
    x = Add({.name = "sum_" + block})({x, Dense({.name = "down_" + block, .units = 12})(y)});
  }
  return table(x);
}

/// Rows of classes, in bytes; or, for int32, of `targets` tokens and those that follow them.
inline std::shared_ptr<const Source> samples_of(const Shape& sample, ElementType type,
                                                std::int64_t targets, std::int64_t classes,
                                                std::int64_t rows) {
  if (type == ElementType::float32) return byte_images(rows, sample, classes, 11);
  std::vector<std::int32_t> tokens, next;
  for (std::int32_t i = 0; i < rows * targets; ++i) {
    tokens.push_back(static_cast<std::int32_t>(i * i % classes));
    next.push_back(static_cast<std::int32_t>((i + 1) * (i + 1) % classes));
  }
  return std::make_shared<ArraySource>(std::vector<Array>{
      Array("x", tokens, {rows, targets}), Array("t", next, {rows, targets}, FieldRole::target)});
}

}  // namespace meshwork::test

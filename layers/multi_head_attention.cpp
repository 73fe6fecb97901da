#include "layers/multi_head_attention.h"

#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "layers/layer_of.h"
#include "layers/spatial.h"
#include "runtime/graph/operations/affine.h"
#include "runtime/graph/operations/bias.h"
#include "runtime/graph/operations/causal_mask.h"
#include "runtime/graph/operations/contraction.h"
#include "runtime/graph/operations/dropout.h"
#include "runtime/graph/operations/softmax.h"

namespace meshwork {

template <class Visitor>
void describe(MultiHeadAttentionOptions& options, Visitor& option) {
  option.about("each place of a sequence takes from the others what resembles its query");
  describe_name(options, option);
  option.required("num_heads", options.num_heads, length, "number of heads");
  option.required("key_dim", options.key_dim, length, "length of a head's queries and keys");
  option("value_dim", options.value_dim, at_least(0), "length of a head's values; 0: key_dim");
  option("dropout", options.dropout, between(0, 1),
         "share of the probabilities set to 0 in training");
  option("use_bias", options.use_bias, "add biases to queries, keys, values and output");
  option("use_causal_mask", options.use_causal_mask,
         "a place looks at itself and those before it alone");
  option("kernel_initializer", options.kernel_initializer, "initial kernels");
  option("bias_initializer", options.bias_initializer, "initial biases");
  option("kernel_regularizer", options.kernel_regularizer, "penalty on the kernels");
  option("bias_regularizer", options.bias_regularizer, "penalty on the biases");
  option("trainable", options.trainable, "train all variables; false: they stay as they are");
}

namespace {

// The equation's product of x and the variable `name`/kernel, plus `name`/bias over the last
// `bias_dimensions` of it. Fans are those of the product: what is summed, and what comes out.
TensorId projected(const MultiHeadAttentionOptions& of, LayerBuilder& builder,
                   const std::string& name, std::string_view equation, TensorId x, Shape kernel,
                   std::size_t bias_dimensions) {
  Initializer initializer = of.kernel_initializer;
  const std::span<const std::int64_t> lengths(kernel);
  const std::size_t summed = kernel.size() - bias_dimensions;
  initializer.fans = {static_cast<double>(element_count(lengths.first(summed))),
                      static_cast<double>(element_count(lengths.subspan(summed)))};
  const Shape bias(kernel.begin() + static_cast<std::ptrdiff_t>(summed), kernel.end());
  const TensorId weights =
      builder.variable(name + "/kernel", {.shape = std::move(kernel),
                                          .initializer = initializer,
                                          .regularizer = of.kernel_regularizer});
  const TensorId y = builder.apply(std::make_unique<ContractionOperation>(equation), {x, weights});
  if (!of.use_bias) return y;
  const TensorId added = builder.variable(
      name + "/bias",
      {.shape = bias, .initializer = of.bias_initializer, .regularizer = of.bias_regularizer});
  return builder.apply(std::make_unique<BiasOperation>(Epilogue{}, bias_dimensions), {y, added});
}

TensorId attention(const MultiHeadAttentionOptions& of, LayerBuilder& builder,
                   std::span<const TensorId> inputs) {
  if (inputs.empty() || inputs.size() > 3) {
    fail("expected a query, perhaps a value and a key, found {} inputs", inputs.size());
  }
  const TensorId query = inputs[0], value = inputs.size() > 1 ? inputs[1] : query,
                 key = inputs.size() > 2 ? inputs[2] : value;
  for (const TensorId sequence : {query, value, key}) {
    if (builder.shape(sequence).size() != 3) {
      fail("expected sequences of shape (batch, length, features), found {}",
           to_string(builder.shape(sequence)));
    }
  }
  if (builder.shape(value)[1] != builder.shape(key)[1]) {
    fail("expected as many values as keys, found sequences of shape {} and {}",
         to_string(builder.shape(value)), to_string(builder.shape(key)));
  }
  const std::int64_t value_dim = of.value_dim > 0 ? of.value_dim : of.key_dim;
  const auto heads = [&](const std::string& name, TensorId x, std::int64_t dimension) {
    return projected(of, builder, name, "btd,dhk->bthk", x,
                     {builder.shape(x).back(), of.num_heads, dimension}, 2);
  };
  TensorId q = heads("query", query, of.key_dim);
  const TensorId k = heads("key", key, of.key_dim);
  const TensorId v = heads("value", value, value_dim);
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(of.key_dim)));
  q = builder.apply(std::make_unique<AffineOperation>(scale, 0.0f), {q});
  TensorId p = builder.apply(std::make_unique<ContractionOperation>("bthk,bshk->bhts"), {q, k});
  if (of.use_causal_mask) p = builder.apply(std::make_unique<CausalMaskOperation>(), {p});
  p = builder.apply(std::make_unique<SoftmaxOperation>(), {p});
  if (of.dropout > 0) p = builder.apply(std::make_unique<DropoutOperation>(of.dropout), {p});
  const TensorId mixed =
      builder.apply(std::make_unique<ContractionOperation>("bhts,bshk->bthk"), {p, v});
  return projected(of, builder, "attention_output", "bthk,hkd->btd", mixed,
                   {of.num_heads, value_dim, builder.shape(query).back()}, 1);
}

}  // namespace

std::string MultiHeadAttentionOptions::part_in_keras(const std::string& part) {
  return (part == "attention_output" ? "output" : part) + "_dense";
}

SharedLayer MultiHeadAttention(MultiHeadAttentionOptions options) {
  return layer_of("MultiHeadAttention", std::move(options), attention);
}

void add_multi_head_attention(Catalog& catalog) {
  catalog.add<SharedLayer, MultiHeadAttentionOptions>("MultiHeadAttention", {}, MultiHeadAttention);
}

}  // namespace meshwork

#include "layers/multi_head_attention.h"

#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "layers/layer_of.h"
#include "layers/projection.h"
#include "layers/spatial.h"
#include "runtime/graph/operations/attention.h"
#include "runtime/graph/operations/pair.h"
#include "runtime/graph/operations/rotary.h"

namespace meshwork {

namespace {

// What the attention layers have in common.
template <class Options, class Visitor>
void describe_attention(Options& options, Visitor& option) {
  option("dropout", options.dropout, between(0, 1),
         "share of the probabilities set to 0 in training");
  option("use_bias", options.use_bias, "add biases to queries, keys, values and output");
  option("use_causal_mask", options.use_causal_mask,
         "a place attends only to itself and earlier places");
  option("sliding_window", options.sliding_window, at_least(0),
         "a place attends to places fewer than this many away; 0: to all");
  option("rope_max_wavelength", options.rope_max_wavelength, at_least(0),
         "wavelength of rotary positions, such as 10000; 0: none");
  describe_variable(option, "kernel", "the kernels", options.kernel_initializer,
                    options.kernel_regularizer, options.kernel_constraint);
  describe_variable(option, "bias", "the biases", options.bias_initializer,
                    options.bias_regularizer, options.bias_constraint);
  option("trainable", options.trainable, "train all variables; false: keep them fixed");
}

}  // namespace

template <class Visitor>
void describe(MultiHeadAttentionOptions& options, Visitor& option) {
  option.about("attention of each place of a sequence to the others, in several heads");
  describe_name(options, option);
  option.required("num_heads", options.num_heads, length, "number of heads");
  option.required("key_dim", options.key_dim, length, "length of a head's queries and keys");
  option("value_dim", options.value_dim, length, "length of a head's values; ~: key_dim");
  describe_attention(options, option);
}
template <class Visitor>
void describe(GroupQueryAttentionOptions& options, Visitor& option) {
  option.about("attention whose heads of keys and values serve several heads of queries each");
  describe_name(options, option);
  option.required("head_dim", options.head_dim, length, "length of a head's vectors");
  option.required("num_query_heads", options.num_query_heads, length, "heads of queries");
  option.required("num_key_value_heads", options.num_key_value_heads, length,
                  "heads of keys and values, which divide those of queries");
  describe_attention(options, option);
}

namespace {

struct HeadCounts {
  std::int64_t queries, keys, key_dim, value_dim;
};

template <class Options>
TensorId attend(const Options& of, const HeadCounts& heads, LayerBuilder& builder,
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
  const auto projected = [&](const std::string& part, TensorId x, std::int64_t count,
                             std::int64_t dimension) {
    const Shape kernel{builder.shape(x).back(), count, dimension};
    return project(of, builder, part, "btd,dhk->bthk", x, kernel, fans_of(kernel, 1),
                   of.use_bias ? 2 : 0);
  };
  const auto turned = [&](TensorId x) {
    if (of.rope_max_wavelength == 0) return x;
    return builder.apply(std::make_unique<RotaryOperation>(of.rope_max_wavelength, 1.0), {x});
  };
  const TensorId q = turned(projected("query/", query, heads.queries, heads.key_dim));
  const TensorId k = turned(projected("key/", key, heads.keys, heads.key_dim));
  const TensorId v = projected("value/", value, heads.keys, heads.value_dim);
  // Keys count where neither the mask of keys nor that of values leaves them out.
  TensorId counted = builder.mask(key);
  if (const TensorId other = builder.mask(value); counted < 0) {
    counted = other;
  } else if (other >= 0 && other != counted) {
    counted =
        builder.apply(std::make_unique<PairOperation>(PairFunction::product), {counted, other});
  }
  // Queries that look at keys of other places have no documents in common with them.
  const bool same = builder.documents(query) == builder.documents(key);
  const TensorId documents = same ? builder.documents(query) : -1;
  if (of.use_causal_mask && (!same || documents == lost_documents)) {
    fail(
        "causal attention cannot tell the documents of its input apart: a layer before it changes "
        "the places, or queries and keys differ in places; leave document_end out");
  }
  if (documents >= 0 && !of.use_causal_mask) {
    fail(
        "its input has documents, and only causal attention keeps them apart; set use_causal_mask, "
        "or leave document_end out");
  }
  const AttentionOptions attention{
      .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(heads.key_dim))),
      .causal = of.use_causal_mask,
      .window = of.sliding_window,
      .masked = counted >= 0,
      .bounded = documents >= 0,
      .dropout = of.dropout};
  std::vector<TensorId> operands{q, k, v};
  if (attention.masked) operands.push_back(counted);
  if (attention.bounded) operands.push_back(documents);
  const TensorId mixed = builder.apply(std::make_unique<AttentionOperation>(attention), operands);
  const Shape kernel{heads.queries, heads.value_dim, builder.shape(query).back()};
  const TensorId y = project(of, builder, "attention_output/", "bthk,hkd->btd", mixed, kernel,
                             fans_of(kernel, 2), of.use_bias ? 1 : 0);
  builder.set_mask(y, builder.mask(query));
  builder.set_documents(y, builder.documents(query));
  return y;
}

}  // namespace

std::string MultiHeadAttentionOptions::part_in_keras(const std::string& part) {
  return (part == "attention_output" ? "output" : part) + "_dense";
}
std::string GroupQueryAttentionOptions::part_in_keras(const std::string& part) {
  return "_" + MultiHeadAttentionOptions::part_in_keras(part);
}

SharedLayer MultiHeadAttention(MultiHeadAttentionOptions options) {
  return layer_of(
      "MultiHeadAttention", std::move(options),
      [](const MultiHeadAttentionOptions& of, LayerBuilder& builder,
         std::span<const TensorId> inputs) {
        const std::int64_t value_dim = of.value_dim.value_or(of.key_dim);
        return attend(of, {of.num_heads, of.num_heads, of.key_dim, value_dim}, builder, inputs);
      });
}

SharedLayer GroupQueryAttention(GroupQueryAttentionOptions options) {
  if (options.num_key_value_heads > 0 &&
      options.num_query_heads % options.num_key_value_heads != 0) {
    fail("{}: num_key_value_heads: expected a divisor of the {} heads of queries, found {}",
         called(options.name, "GroupQueryAttention"), options.num_query_heads,
         options.num_key_value_heads);
  }
  return layer_of("GroupedQueryAttention", std::move(options),
                  [](const GroupQueryAttentionOptions& of, LayerBuilder& builder,
                     std::span<const TensorId> inputs) {
                    return attend(
                        of, {of.num_query_heads, of.num_key_value_heads, of.head_dim, of.head_dim},
                        builder, inputs);
                  });
}

void add_multi_head_attention(Catalog& catalog) {
  catalog.add<SharedLayer, MultiHeadAttentionOptions>("MultiHeadAttention", {}, MultiHeadAttention);
  catalog.add<SharedLayer, GroupQueryAttentionOptions>("GroupQueryAttention", {},
                                                       GroupQueryAttention);
}

}  // namespace meshwork

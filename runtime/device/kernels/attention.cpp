#include "runtime/device/kernels/attention.h"

namespace meshwork {

double AttentionShape::pairs() const {
  if (resumed) return from((all_queries - queries) / 2).pairs();
  double pairs = 0;
  for (std::int64_t query = 0; query < queries; ++query) {
    const Range looked_at = keys_of(query);
    pairs += static_cast<double>(looked_at.end - looked_at.begin);
  }
  return pairs * spec::product({batch, heads});
}

std::string AttentionShape::text(std::string_view name) const {
  return spec::sized(name, {batch, queries, keys, heads, key_heads, key_length, value_length}) +
         spec::words({{causal, "causal"},
                      {window > 0, "windowed"},
                      {masked, "masked"},
                      {bounded, "bounded"},
                      {dropout > 0, "dropped"},
                      {resumed, "of a piece"}});
}

void AttentionShape::check(const std::string& kernel) const {
  spec::require(heads_a_key_head > 0, kernel, "has heads that share no head of keys");
  if (batch * queries * keys * heads == 0) return;
  spec::require(key_head_of(0) >= 0 && key_head_of(heads - 1) < key_heads, kernel,
                "lacks a head of keys that a head of queries looks at");
}

namespace {

// Bytes of q, k, v and y, and of l.
double operand_bytes(const AttentionShape& at) {
  return spec::f32 *
         (spec::product({at.batch, at.queries, at.heads, at.key_length + at.value_length + 1}) +
          spec::product({at.batch, at.keys, at.key_heads, at.key_length + at.value_length}));
}

}  // namespace

// A product for the scores, and one for the values.
KernelWork AttentionSpec::work() const {
  return {2 * at.pairs() * static_cast<double>(at.key_length + at.value_length), operand_bytes(at),
          precision};
}

// Products for the scores once more, dv, dp, dq and dk.
KernelWork AttentionGradientSpec::work() const {
  return {2 * at.pairs() * static_cast<double>(3 * at.key_length + 2 * at.value_length),
          2 * operand_bytes(at), precision};
}

}  // namespace meshwork

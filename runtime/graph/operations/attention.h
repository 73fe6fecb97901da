// Scaled dot-product attention over heads: each query takes of the values those whose keys resemble
// it.
//
// Inputs: q (batch, queries, heads, key length), k (batch, keys, key heads, key length) and v
// (batch, keys, key heads, value length); y (batch, queries, heads, value length). Heads of queries
// share those of keys in groups, in order. kernels/attention.h has the formula.
//
// A further input, the mask of the keys (batch, keys; mask.h), says which of them are looked at.
// One behind, where the documents of the queries begin (batch, queries; document_starts.h), keeps
// these apart.
//
// Rule "bqhe,bqhe,bqhf,bq,bq->bqhf": batch, places and heads are free. Places slide a window: for
// the queries [a, b) a rank needs all keys; of a causal attention those of [0, b), and of one with
// a window of w those from a - w + 1 on. They are brought before forward, and their gradients go
// back to the owners: context parallelism. Where heads share keys, h slides one too: more ranks
// than heads of keys are as good as fewer. A split of f leaves the gradients of q and k partial. e
// is whole.
//
// A causal one takes pieces of sequences (sequences.h): keys, values and their mask are kept. One
// whose queries look at themselves alone would keep nothing, and does not.
#pragma once

#include <algorithm>
#include <cstdint>

#include "collectives/error.h"
#include "runtime/device/kernels/attention.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {

struct AttentionOptions {
  float scale = 1;          // of the products of queries and keys
  bool causal = false;      // a query looks at the keys up to its own place
  std::int64_t window = 0;  // at those fewer than so many places away; 0: at all
  bool masked = false;      // at those that the mask counts
  bool bounded = false;     // at those of its own document
  float dropout = 0;        // rate at which probabilities are dropped in training, from 0 to 1
};

class AttentionOperation final : public Operation {
 public:
  /// Throws `Error` for options out of range.
  explicit AttentionOperation(const AttentionOptions& options) : options_(options) {
    if (options.window < 0 || !(0 <= options.dropout && options.dropout <= 1)) {
      fail(
          "attention with a window of {} places and dropout at rate {}: expected a window of at "
          "least 0, and a rate from 0 to 1",
          options.window, options.dropout);
    }
  }

  std::string kind() const override { return "attention"; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, static_cast<std::size_t>(operands().behind_values()));
    const Shape &q = inputs[0], &k = inputs[1], &v = inputs[2];
    if (q.size() != 4 || k.size() != 4 || v.size() != 4 || q[3] != k[3] || k[1] != v[1] ||
        k[2] != v[2]) {
      fail(
          "attention needs queries, keys and values of shape (batch, length, heads, elements), "
          "found {}, {} and {}",
          to_string(q), to_string(k), to_string(v));
    }
    if (options_.masked && inputs[3] != Shape{k[0], k[1]}) {
      fail("expected a mask of {}, found {}", to_string(Shape{k[0], k[1]}), to_string(inputs[3]));
    }
    if (const Shape places{q[0], q[1]}; options_.bounded && inputs[bounds()] != places) {
      fail("expected the places at which documents begin, of {}, found {}", to_string(places),
           to_string(inputs[bounds()]));
    }
    if (k[2] < 1 || q[2] % k[2] != 0) {
      fail("{} heads of queries do not share {} heads of keys evenly", q[2], k[2]);
    }
    if (options_.causal && q[1] != k[1]) {
      fail("a causal attention needs as many queries as keys, found {} and {}", q[1], k[1]);
    }
    return {q[0], q[1], q[2], v[3]};
  }
  Rule rule(std::span<const Shape> inputs) const override {
    Rule rule{.inputs = {"bqhe", "bqhe", "bqhf"},
              .output = "bqhf",
              .whole = "e",
              .windows = shared(inputs) > 1 ? "qh" : "q"};
    if (options_.masked) rule.inputs.emplace_back("bq");
    if (options_.bounded) rule.inputs.emplace_back("bq");
    return rule;
  }
  Range window(int input, int dimension, Range output,
               std::span<const Shape> inputs) const override {
    if (input == 0 || (options_.bounded && input == bounds())) return output;
    if (dimension == 2) {
      const std::int64_t group = shared(inputs);
      return {output.begin / group, (output.end + group - 1) / group};
    }
    const std::int64_t keys = inputs[1][1], window = options_.window;
    const std::int64_t end = options_.causal ? output.end
                             : window > 0    ? output.end + window - 1
                                             : keys;
    const std::int64_t begin = window > 0 ? output.begin - window + 1 : 0;
    return {std::clamp<std::int64_t>(begin, 0, keys), std::min(end, keys)};
  }
  bool takes_pieces(char letter, const Rule& rule) const override {
    if (letter != 'q') return Operation::takes_pieces(letter, rule);
    return options_.causal && options_.window != 1;
  }
  // Two products over the keys that are looked at.
  double flops(std::span<const Shape> inputs, const Shape& output) const override {
    const Shape &q = inputs[0], &k = inputs[1];
    const double seen =
        options_.window > 0
            ? static_cast<double>(
                  std::min(k[1], options_.causal ? options_.window : 2 * options_.window - 1))
            : static_cast<double>(k[1]) / (options_.causal ? 2 : 1);
    return 2 * static_cast<double>(q[0] * q[1] * q[2]) * seen *
           static_cast<double>(q[3] + output[3]);
  }
  // The last queries of a causal attention look at the most keys: of n blocks the last at
  // (2 n - 1) / n^2 of all pairs. A part of each value needs the whole probabilities.
  double largest_share(char letter, std::int64_t parts,
                       std::span<const Shape> inputs) const override {
    const double equal = Operation::largest_share(letter, parts, inputs);
    if (letter == 'q' && options_.causal && options_.window == 0) return equal * (2 - equal);
    if (letter != 'f') return equal;
    const auto key = static_cast<double>(inputs[1][3]), value = static_cast<double>(inputs[2][3]);
    return key + value == 0 ? equal : (key + equal * value) / (key + value);
  }

  void forward(Lowering& lowering) const override {
    const AttentionShape at = shape(lowering);
    std::vector<Operand> operands = read(lowering);
    if (at.reads_scalars()) operands.push_back(lowering.step_scalars());
    operands.push_back(lowering.output());
    operands.push_back(logarithms(lowering, at));
    lowering.emit(AttentionSpec{at}, operands);
  }
  void backward(Lowering& lowering) const override {
    if (!lowering.needs_gradient(0) && !lowering.needs_gradient(1) && !lowering.needs_gradient(2)) {
      return;
    }
    const AttentionShape at = shape(lowering);
    std::vector<Operand> operands = read(lowering);
    for (const Operand& operand :
         {lowering.output(), logarithms(lowering, at), lowering.output_gradient()}) {
      operands.push_back(operand);
    }
    if (at.dropout > 0) operands.push_back(lowering.step_scalars());
    for (int input = 0; input < 3; ++input) {
      operands.push_back(lowering.needs_gradient(input)
                             ? lowering.input_gradient(input)
                             : lowering.scratch(fmt::format("gradient {}", input),
                                                element_count(lowering.local_shape(input))));
    }
    lowering.emit(AttentionGradientSpec{at}, operands);
  }

 private:
  // Inputs stand as the kernel's operands do.
  [[nodiscard]] AttentionShape operands() const {
    return {.masked = options_.masked, .bounded = options_.bounded};
  }
  [[nodiscard]] int bounds() const { return operands().bounds(); }
  static std::int64_t shared(std::span<const Shape> inputs) { return inputs[0][2] / inputs[1][2]; }

  AttentionShape shape(const Lowering& lowering) const {
    const Block &q = lowering.block(0), &k = lowering.block(1);
    const Block& y = lowering.output_block();
    const Shape &queries = lowering.global_shape(0), &keys = lowering.global_shape(1);
    return {.batch = q[0].length(),
            .queries = q[1].length(),
            .keys = k[1].length(),
            .heads = q[2].length(),
            .key_heads = k[2].length(),
            .key_length = q[3].length(),
            .value_length = y[3].length(),
            .scale = options_.scale,
            .causal = options_.causal,
            .window = options_.window,
            .masked = options_.masked,
            .bounded = options_.bounded,
            .dropout = lowering.training() ? options_.dropout : 0,
            .random_key = lowering.random_key(),
            .resumed = lowering.positions('q') > 0,
            .first_sample = lowering.output_in_batch().block[0].begin,
            .first_query = q[1].begin,
            .first_key = k[1].begin,
            .first_head = q[2].begin,
            .first_key_head = k[2].begin,
            .heads_a_key_head = queries[2] / keys[2],
            .all_heads = queries[2],
            .all_queries = std::max(queries[1], lowering.positions('q')),
            .all_keys = keys[1]};
  }
  std::vector<Operand> read(Lowering& lowering) const {
    std::vector<Operand> inputs{lowering.input(0), lowering.input(1), lowering.input(2)};
    if (options_.masked) inputs.push_back(lowering.input(3));
    if (options_.bounded) inputs.push_back(lowering.input(bounds()));
    return inputs;
  }
  static Operand logarithms(Lowering& lowering, const AttentionShape& at) {
    return lowering.scratch("logarithms of sums", at.batch * at.queries * at.heads);
  }

  AttentionOptions options_;
};

}  // namespace meshwork

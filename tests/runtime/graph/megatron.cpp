// The collectives of a transformer's block beside those that Megatron-LM counts for it, in number,
// elements and bytes: for tensor parallelism arXiv 1909.08053, section 3, for sequence parallelism
// arXiv 2205.05198, section 4.2.2. And beside those that DeepSpeed-Ulysses counts for attention over
// parts of a sequence: arXiv 2309.14509, section 3.2. Here they follow from layouts.
#include <algorithm>
#include <map>

#include "layers/add.h"
#include "layers/dense.h"
#include "layers/layer_normalization.h"
#include "layers/multi_head_attention.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "tests/support/plans.h"

namespace meshwork::megatron_test {

using namespace meshwork::test;

namespace {

// Of sizes at which bytes cost more than latency, and weights are larger than activations.
constexpr std::int64_t rows = 2, length = 128, width = 1024, values = rows * length * width;

// Two blocks, so that one is between others.
Trained blocks() {
  return {
      .sample = {length, width},
      .build =
          [](SymbolicTensor x) {
            for (const std::string block : {"a", "b"}) {
              auto y = LayerNormalization({.name = "norm_1" + block})(x);
              y = MultiHeadAttention(
                  {.name = "attention_" + block, .num_heads = 8, .key_dim = 128})(y);
              x = Add({.name = "attended_" + block})({x, y});
              y = LayerNormalization({.name = "norm_2" + block})(x);
              y = Dense(
                  {.name = "up_" + block, .units = 4 * width, .activation = Activation::gelu})(y);
              y = Dense({.name = "down_" + block, .units = width})(y);
              x = Add({.name = "added_" + block})({x, y});
            }
            return x;
          },
      .loss = MeanSquaredError()};
}

LayoutEntries heads_and_hidden_units() {
  return {{"attention_.*/(query|key|value)/kernel", {{}, "model", {}}},
          {"attention_.*/(query|key|value)/bias", {"model", {}}},
          {"attention_.*/attention_output/kernel", {"model", {}, {}}},
          {"up_.*/kernel", {{}, "model"}},
          {"up_.*/bias", {"model"}},
          {"down_.*/kernel", {"model", {}}}};
}

// "4 x all_gather in forward: 1234 bytes", by collective and phase.
using Sent = std::vector<std::string>;
std::string sent(int count, const std::string& collective, const std::string& phase,
                 std::int64_t bytes) {
  return fmt::format("{} x {} in {}: {} bytes", count, collective, phase, bytes);
}

// What `rank` of four along `axis` sends in a step of collectives of so many elements.
Sent sent(const Trained& training, const LayoutEntries& layouts, std::int64_t elements,
          const std::string& axis, std::int64_t rank = 0) {
  const Plan plan = plan_of(training, mesh_of({{"data", 1}, {axis, 4}}), layouts, "data", rows);
  const PlanReport report =
      report_plan(plan, Mode::train, rows, rank, training.optimizer.update_rule(), {});
  std::map<std::pair<std::string, std::string>, std::pair<int, std::int64_t>> found;
  for (const CollectiveRecord& record : report.collectives) {
    if (record.global_elements != elements) continue;
    auto& [count, bytes] = found[{std::string(record.name), record.purpose.phase}];
    ++count;
    bytes += record.bytes_sent;
  }
  Sent lines;
  for (const auto& [what, how] : found) {
    lines.push_back(sent(how.first, what.first, what.second, how.second));
  }
  return lines;
}

// Of the activations of the blocks.
Sent sent(const LayoutEntries& layouts) {
  return sent(blocks(), layouts, values, "model");
}

// Attention alone, on a sequence that is split before and behind it, and larger than the weights.
constexpr std::int64_t long_sequence = 2048, narrow = 64,
                       of_sequence = rows * long_sequence * narrow;

Trained attention(std::int64_t heads, bool causal) {
  return {.sample = {long_sequence, narrow},
          .build =
              [=](const SymbolicTensor& x) {
                return MultiHeadAttention({.name = "attention",
                                           .num_heads = heads,
                                           .key_dim = narrow / heads,
                                           .use_bias = false,
                                           .use_causal_mask = causal})(
                    LayerNormalization({.name = "norm"})(x));
              },
          .loss = MeanSquaredError()};
}
const LayoutEntries places{{"(norm|attention)/output", {"data", "sequence", {}}}};

}  // namespace

TEST_CASE("a block split by heads and hidden units reduces as often as Megatron's") {
  LayoutEntries layouts = heads_and_hidden_units();
  const TensorLayout whole{"data", {}, {}};
  layouts.insert(layouts.end(), {{"(attended|added|norm)_.*/output", whole},
                                 {"(attention|down)_.*/output", whole}});
  // Each sends 2 (n - 1) / n of what it reduces.
  const std::int64_t bytes = 2 * 2 * 2 * values * 4 * 3 / 4;
  CHECK(sent(layouts) ==
        Sent{sent(4, "all_reduce", "backward", bytes), sent(4, "all_reduce", "forward", bytes)});
}

TEST_CASE("left to itself the planner splits the sequence between heads and hidden units") {
  // Twice as many of half the bytes.
  const std::int64_t bytes = 2 * 2 * values * 4 * 3 / 4;
  CHECK(sent(heads_and_hidden_units()) == Sent{sent(4, "all_gather", "backward", bytes),
                                               sent(4, "all_gather", "forward", bytes),
                                               sent(4, "reduce_scatter", "backward", bytes),
                                               sent(4, "reduce_scatter", "forward", bytes)});
}

TEST_CASE("where heads are enough, a split sequence is exchanged for split heads, as in Ulysses") {
  for (const bool causal : {false, true}) {
    // Queries, keys, values and what comes out of them: of n ranks each sends (n - 1) / n of its
    // n-th part.
    const std::int64_t bytes = 4 * of_sequence * 4 * 3 / 16;
    CHECK(sent(attention(8, causal), places, of_sequence, "sequence") ==
          Sent{sent(4, "all_to_all", "backward", bytes), sent(4, "all_to_all", "forward", bytes)});
  }
}

TEST_CASE("where a head is all there is, a rank is sent the keys and values that it looks at") {
  const std::int64_t block = of_sequence * 4 / 4;
  // To all others; and back the gradients of what it was sent of them.
  CHECK(
      sent(attention(1, false), places, of_sequence, "sequence") ==
      Sent{sent(2, "halo", "backward", 2 * 3 * block), sent(2, "halo", "forward", 2 * 3 * block)});
  // To those behind; and back to those before.
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    CHECK(sent(attention(1, true), places, of_sequence, "sequence", rank) ==
          Sent{sent(2, "halo", "backward", 2 * rank * block),
               sent(2, "halo", "forward", 2 * (3 - rank) * block)});
  }
}

// Where each message takes long, results are rather whole than split.
TEST_CASE("a limit of memory makes the planner split what takes less time whole") {
  const Trained training = blocks();
  auto [blueprint, data] = blueprint_of(training, mesh_of({{"data", 1}, {"model", 4}}),
                                        heads_and_hidden_units(), "data");
  blueprint.spread.costs.latency_seconds = 1e-3;
  const auto bytes_of = [&](const Plan& plan) {
    return report_plan(plan, Mode::train, rows, 0, training.optimizer.update_rule(), {})
        .arena_bytes;
  };
  blueprint.draw(data, rows);
  const Plan fastest = blueprint.planned->plan;
  const std::int64_t most = bytes_of(fastest), limit = most * 19 / 20;
  blueprint.draw_within(most, data, rows, bytes_of);
  CHECK_FALSE(blueprint.planned->plan.without_limit);

  blueprint.draw_within(limit, data, rows, bytes_of);
  const Plan within = blueprint.planned->plan;
  CHECK(bytes_of(within) <= limit);
  REQUIRE(within.without_limit);
  CHECK(within.without_limit->bytes == most);
  CHECK(within.without_limit->times_as_long > 1);
  CHECK(longest(within.seconds).communication > longest(fastest.seconds).communication);
  // The price itself is no time: that of messages is, 26 of them now, of up to two latencies.
  CHECK(longest(within.seconds).communication < 0.1);

  CHECK_THROWS_WITH(
      blueprint.draw_within(1000, data, rows, bytes_of),
      Catch::Matchers::StartsWith("no plan was found that holds a step within 1000 B"));
}

}  // namespace meshwork::megatron_test

// The collectives of a transformer's block beside those that Megatron-LM counts for it, in number and
// elements: for tensor parallelism arXiv 1909.08053, section 3, for sequence parallelism arXiv
// 2205.05198, section 4.2.2. Here they follow from layouts.
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

// What a step sends of the activations of the second block, by phase: how often each collective.
std::map<std::pair<std::string, std::string>, int> sent(const LayoutEntries& layouts) {
  const Trained training = blocks();
  const Plan plan = plan_of(training, mesh_of({{"data", 1}, {"model", 4}}), layouts, "data", rows);
  const PlanReport report =
      report_plan(plan, Mode::train, rows, 0, training.optimizer.update_rule(), {});
  std::map<std::pair<std::string, std::string>, int> counts;
  for (const CollectiveRecord& record : report.collectives) {
    if (record.global_elements == values) {
      ++counts[{record.purpose.phase, std::string(record.name)}];
    }
  }
  return counts;
}

}  // namespace

TEST_CASE("a block split by heads and hidden units reduces as often as Megatron's") {
  LayoutEntries layouts = heads_and_hidden_units();
  const TensorLayout whole{"data", {}, {}};
  layouts.insert(layouts.end(), {{"(attended|added|norm)_.*/output", whole},
                                 {"(attention|down)_.*/output", whole}});
  auto counts = sent(layouts);
  CHECK(counts[{"forward", "all_reduce"}] == 2 * 2);
  CHECK(counts[{"backward", "all_reduce"}] == 2 * 2);
  CHECK(counts.size() == 2);
}

TEST_CASE("left to itself the planner splits the sequence between heads and hidden units") {
  auto counts = sent(heads_and_hidden_units());
  CHECK(counts[{"forward", "all_gather"}] == 2 * 2);
  CHECK(counts[{"forward", "reduce_scatter"}] == 2 * 2);
  CHECK(counts[{"backward", "all_gather"}] == 2 * 2);
  CHECK(counts[{"backward", "reduce_scatter"}] == 2 * 2);
  CHECK(counts.size() == 4);
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
  CHECK(within.longest().communication > fastest.longest().communication);
  // The price itself is no time: that of messages is, 26 of them now, of up to two latencies.
  CHECK(within.longest().communication < 0.1);

  CHECK_THROWS_WITH(
      blueprint.draw_within(1000, data, rows, bytes_of),
      Catch::Matchers::StartsWith("no plan was found that holds a step within 1000 B"));
}

}  // namespace meshwork::megatron_test

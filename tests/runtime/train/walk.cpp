// Micro-batches and recomputing: what they change, and what they do not.
//
// The sums of a step are made in another order, so numbers are compared to float32 rounding. Adam's
// steps do not shrink with gradients, and that of a key's bias is rounding alone: 2e-4 after six
// steps of 0.01. Recomputing changes no order: its numbers are the same bits.
#include "runtime/graph/walk.h"

#include <algorithm>
#include <string>

#include "layers/activation.h"
#include "layers/activity_regularization.h"
#include "layers/add.h"
#include "layers/augmentation.h"
#include "layers/batch_normalization.h"
#include "layers/convolution.h"
#include "layers/dense.h"
#include "layers/dropout.h"
#include "layers/embedding.h"
#include "layers/flatten.h"
#include "layers/layer_normalization.h"
#include "layers/multi_head_attention.h"
#include "layers/position.h"
#include "layers/regularizers/l1_l2.h"
#include "layers/rescaling.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/metrics/categorical_accuracy.h"
#include "runtime/train/optimizers/adam.h"
#include "tests/support/byte_images.h"
#include "tests/support/plans.h"
#include "tests/support/small_gpt.h"

namespace meshwork::walk_test {

using namespace meshwork::test;

namespace {

constexpr double tolerance = 2e-4;
constexpr std::int64_t classes = 7;

struct Network {
  std::string name;
  Shape sample;
  ElementType type;      // of what the model takes
  std::int64_t targets;  // a sample
  SymbolicTensor (*layers)(const SymbolicTensor&);
  LayoutEntries model, sharded;  // over the axes "model" and "data"
};

// Draws, penalties, and a loss that no micro-batch has alone.
SymbolicTensor dense(const SymbolicTensor& input) {
  auto x = Flatten()(Rescaling({.scale = 1.0 / 255})(input));
  x = Dense({.name = "d1",
             .units = 13,
             .activation = Activation::gelu,
             .kernel_regularizer = L1L2({.l1 = 1e-4f, .l2 = 1e-3f})})(x);
  x = Dropout({.rate = 0.3})(x);
  x = ActivityRegularization({.l1 = 1e-3f, .l2 = 1e-2f})(x);
  x = Dense({.name = "d2", .units = 11, .activation = Activation::relu})(x);
  return Dense({.name = "d3", .units = classes})(x);
}

// Statistics of a batch, which are those of a micro-batch.
SymbolicTensor images(const SymbolicTensor& input) {
  auto x = Rescaling({.scale = 1.0 / 255})(input);
  x = RandomBrightness({.factor = 0.2f})(RandomFlip({.name = "flip"})(x));
  for (const std::string number : {"1", "2"}) {
    const auto convolution = Conv2D({.name = "conv" + number,
                                     .filters = 6,
                                     .kernel_size = 3,
                                     .padding = Padding::same,
                                     .activation = Activation::relu,
                                     .use_bias = false});
    const auto norm = BatchNormalization({.name = "norm", .momentum = 0.9f});
    x = Sequential({convolution, norm, ActivationLayer({.activation = Activation::tanh})},
                   "part" + number)(x);
  }
  return Dense({.name = "classes", .units = classes})(Flatten()(x));
}

const Network dense_network{"dense",
                            {5, 3},
                            ElementType::float32,
                            1,
                            dense,
                            {{"d1/kernel", {{}, "model"}}, {"d2/kernel", {"model", {}}}},
                            {{".*/kernel", {"data", {}}}}};
const Network gpt_network{"gpt",
                          {9},
                          ElementType::int32,
                          9,
                          small_gpt<classes>,
                          {{"attention_.*/(query|key|value)/kernel", {{}, "model", {}}},
                           {"up_.*/kernel", {{}, "model"}},
                           {"down_.*/kernel", {"model", {}}},
                           {"tokens/embeddings", {"model", {}}}},
                          {{"up_.*/kernel", {{}, "data"}}, {"places/.*embeddings", {"data", {}}}}};
const Network image_network{"images",
                            {6, 5, 2},
                            ElementType::float32,
                            1,
                            images,
                            {{"part1/conv1/output", {"data", "model", {}, {}}}},
                            {{"part2/conv2/kernel", {{}, {}, {}, "data"}}}};

std::shared_ptr<const Source> samples(const Network& network, std::int64_t rows) {
  return samples_of(network.sample, network.type, network.targets, classes, rows);
}

struct Outcome {
  std::vector<std::vector<float>> variables;
  std::map<std::string, std::vector<double>> history;
};

// Two epochs of two full batches of 26 rows and one of 3, which has fewer rows than micro-batches.
Outcome trained(const Network& network, Distribution distribution, const StepWalk& walk,
                bool clipped = false) {
  const SymbolicTensor input = Input(network.sample, "x", network.type);
  Model model(input, network.layers(input), std::move(distribution),
              {.seed = 3, .check_plan = true});
  model.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true}),
                 .optimizer = clipped ? Adam({.learning_rate = 0.01, .global_clipnorm = 0.1})
                                      : Adam({.learning_rate = 0.01}),
                 .metrics = {SparseCategoricalAccuracy()}});
  const History history =
      model.fit(samples(network, 55),
                {.epochs = 2, .batch_size = 26, .verbose = Verbosity::silent, .walk = walk});
  return {variables_of(model), history.history};
}

void compare(const Outcome& found, const Outcome& expected, double within) {
  REQUIRE(found.variables.size() == expected.variables.size());
  for (std::size_t v = 0; v < found.variables.size(); ++v) {
    INFO("variable " << v);
    CHECK(difference(found.variables[v], expected.variables[v], within) == "");
  }
  for (const auto& [name, values] : expected.history) {
    for (std::size_t epoch = 0; epoch < values.size(); ++epoch) {
      INFO(name << " of epoch " << epoch);
      CHECK(std::abs(found.history.at(name)[epoch] - values[epoch]) <= within);
    }
  }
}

struct Setting {
  std::vector<MeshAxis> axes;
  LayoutEntries layouts;
};

std::vector<Setting> settings(const Network& network) {
  const std::int64_t ranks = Communicator::world().size();
  std::vector<Setting> all{{{{"data", ranks}}, {}},
                           {{{"data", ranks}}, network.sharded},
                           {{{"data", 1}, {"model", ranks}}, network.model}};
  if (ranks == 4) all.push_back({{{"data", 2}, {"model", 2}}, network.model});
  return all;
}

}  // namespace

TEST_CASE("micro-batches give the numbers of the whole batch") {
  for (const Network& network : {dense_network, gpt_network}) {
    for (const bool clipped : {false, true}) {
      DeviceMesh one = alone();
      const Outcome whole = trained(network, spread_over(one), {}, clipped);
      for (const Setting& setting : settings(network)) {
        for (const std::int64_t micro_batches : {2, 3, 4}) {
          DeviceMesh mesh(setting.axes);
          INFO(network.name << " on " << meshwork::to_string(mesh.shape()) << ", "
                            << to_string(setting.layouts) << ", " << micro_batches
                            << " micro-batches");
          compare(trained(network, spread_over(mesh, setting.layouts),
                          {.micro_batches = micro_batches}, clipped),
                  whole, tolerance);
        }
      }
    }
  }
}

TEST_CASE("a limit of memory gives a plan that stays below, and the same numbers") {
  const std::int64_t ranks = Communicator::world().size();
  if (ranks == 1) return;  // nothing is to be split
  DeviceMesh one = alone(), mesh({{"data", 1}, {"model", ranks}});
  const Outcome whole = trained(gpt_network, spread_over(one), {});
  const auto data = samples(gpt_network, 55);
  const SymbolicTensor input = Input(gpt_network.sample, "x", gpt_network.type);
  Model model(input, small_gpt<classes>(input), spread_over(mesh, gpt_network.model),
              {.seed = 3, .check_plan = true});
  model.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true}),
                 .optimizer = Adam({.learning_rate = 0.01}),
                 .metrics = {SparseCategoricalAccuracy()}});
  const auto peak = [&] {
    std::int64_t bytes = model.plan(data, 26, Mode::train).peak_bytes();
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, &bytes, 1, MPI_INT64_T, MPI_MAX, mesh.all().native()),
              "MPI_Allreduce");
    return bytes;
  };
  const std::int64_t most = peak(), limit = most * 19 / 20;
  const FitOptions options{
      .epochs = 2, .batch_size = 26, .verbose = Verbosity::silent, .memory = ByteCount{limit}};
  // The model has a plan already; fit makes another.
  const History history = model.fit(data, options);
  CHECK(peak() <= limit);
  const auto without = model.plan(data, 26, Mode::train).without_limit;
  REQUIRE(without);
  CHECK(without->limit == limit);
  CHECK(without->bytes == most);
  compare({variables_of(model), history.history}, whole, tolerance);
  CHECK_THROWS_WITH(model.fit(data, {.batch_size = 26, .memory = ByteCount{1000}}),
                    Catch::Contains("no plan was found that holds a step within 1000 B"));
}

TEST_CASE("statistics of a micro-batch are the same on every mesh, and not those of the batch") {
  DeviceMesh one = alone();
  const Outcome parts = trained(image_network, spread_over(one), {.micro_batches = 3});
  const Outcome whole = trained(image_network, spread_over(one), {});
  CHECK(std::abs(parts.history.at("loss")[1] - whole.history.at("loss")[1]) > 1e-3);
  for (const Setting& setting : settings(image_network)) {
    DeviceMesh mesh(setting.axes);
    INFO(meshwork::to_string(mesh.shape()) << ", " << to_string(setting.layouts));
    compare(trained(image_network, spread_over(mesh, setting.layouts), {.micro_batches = 3}), parts,
            tolerance);
  }
}

TEST_CASE("recomputing gives the same bits") {
  const std::vector<std::pair<Network, std::string>> cases{{dense_network, "d[12]|dropout"},
                                                           {gpt_network, "(attention|up|norm)_.*"},
                                                           {image_network, "part[12]"},
                                                           {image_network, "blocks"}};
  for (const auto& [network, pattern] : cases) {
    for (const Setting& setting : settings(network)) {
      for (const std::int64_t micro_batches : {1, 2}) {
        DeviceMesh mesh(setting.axes);
        INFO(network.name << " on " << meshwork::to_string(mesh.shape()) << ", "
                          << to_string(setting.layouts));
        const Outcome kept =
            trained(network, spread_over(mesh, setting.layouts), {.micro_batches = micro_batches});
        const Outcome made_again = trained(network, spread_over(mesh, setting.layouts),
                                           {.micro_batches = micro_batches, .recompute = pattern});
        CHECK(made_again.variables == kept.variables);
        CHECK(made_again.history == kept.history);
      }
    }
  }
}

namespace {

// Four layers of attention, whose outputs alone are a fifth of their activations.
Trained deep() {
  return {.sample = {8, 64},
          .build =
              [](SymbolicTensor x) {
                for (int layer = 0; layer < 4; ++layer) {
                  x = MultiHeadAttention(
                      {.name = "d" + std::to_string(layer), .num_heads = 4, .key_dim = 16})(x);
                }
                return Dense({.name = "last", .units = 4})(x);
              },
          .optimizer = SGD()};
}

PlanReport report(const StepWalk& walk, const LayoutEntries& layouts = {}) {
  const Trained training = deep();
  const Plan plan = plan_of(training, mesh_of({{"data", 2}}), layouts, "data", 128);
  return report_plan(plan, Mode::train, 128, 0, training.optimizer.update_rule(), {},
                     Precision::float32, {}, walk);
}

std::int64_t count(const PlanReport& report, const std::string& phase) {
  return std::ranges::count_if(report.collectives, [&](const CollectiveRecord& record) {
    return record.purpose.phase == phase;
  });
}

}  // namespace

TEST_CASE("gradients of micro-batches are reduced once, and those of split variables each time") {
  const std::int64_t whole = count(report({}), "backward");
  CHECK(whole > 0);
  CHECK(count(report({.micro_batches = 4}), "backward") == whole);
  const LayoutEntries sharded{{"last/kernel", {"data", {}}}};
  // Gathered and reduced.
  CHECK(count(report({}, sharded), "backward") == whole + 2);
  CHECK(count(report({.micro_batches = 4}, sharded), "backward") == whole + 8);
}

TEST_CASE("micro-batches and recomputing take less memory for activations") {
  const std::int64_t activation = 64 * 8 * 64 * 4;  // of this rank's half of the batch
  const std::int64_t whole = report({}).arena_bytes;
  CHECK(whole >= 4 * 5 * activation);
  CHECK(report({.micro_batches = 4}).arena_bytes < whole / 3);
  // Four outputs stay, and one layer's activations and gradients are there at a time.
  CHECK(report({.recompute = "d[0-9]"}).arena_bytes < whole * 2 / 3);
  CHECK(report({.micro_batches = 4}).batch_bytes == report({}).batch_bytes);
}

TEST_CASE("a plan says what recomputing saves and what it takes") {
  const PlanReport kept = report({}), again = report({.recompute = "d[0-9]"});
  CHECK_FALSE(kept.without_recomputing);
  REQUIRE(again.without_recomputing);
  CHECK(again.without_recomputing->arena_bytes == kept.arena_bytes);
  CHECK(again.without_recomputing->flops == kept.flops);
  // Of four layers three products of 64 x 8 positions and the attention, each once more. What makes
  // a layer's output is kept.
  constexpr double positions = 64 * 8, products = 3 * 2 * positions * 64 * 64,
                   attention = 2 * positions * 8 * 4 * (16 + 16);
  const double more = again.flops - kept.flops;
  CHECK(more == Approx(4 * (products + attention)).epsilon(0.02));
  CHECK(again.seconds.arithmetic - kept.seconds.arithmetic ==
        Approx(more / kept.costs.flops_per_second));
  CHECK_THAT(to_text(again), Catch::Contains("recomputing: activations and scratch"));
}

TEST_CASE("a pattern of what is recomputed that matches nothing is an error") {
  CHECK_THROWS_WITH(report({.recompute = "d9"}),
                    Catch::Contains("recompute") && Catch::Contains("\"d9\""));
  CHECK_THROWS_WITH(report({.recompute = "d("}), Catch::Contains("recompute"));
  CHECK_THROWS_WITH(report({.recompute = "blocks"}),
                    "recompute: \"blocks\": there are none: no layer stands within another");
}

TEST_CASE("a batch is divided into equal ranges, of which none is empty") {
  const StepWalk walk{.micro_batches = 4};
  CHECK(walk.of(10) == std::vector<Range>{{0, 2}, {2, 5}, {5, 7}, {7, 10}});
  CHECK(walk.of(3) == std::vector<Range>{{0, 1}, {1, 2}, {2, 3}});
  CHECK(walk.of(0) == std::vector<Range>{{0, 0}});
  CHECK(walk.rows_at_once(10) == 3);
}

}  // namespace meshwork::walk_test

// Parts of a model on parts of a mesh give the bits of the whole model on every rank.
//
// The reference is a model on the same mesh whose layers are placed nowhere: the axis that places is
// idle there.
#include "runtime/graph/placement.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "collectives/exchange.h"
#include "layers/activation.h"
#include "layers/activity_regularization.h"
#include "layers/add.h"
#include "layers/augmentation.h"
#include "layers/batch_normalization.h"
#include "layers/concatenate.h"
#include "layers/constraints/max_norm.h"
#include "layers/constraints/non_neg.h"
#include "layers/constraints/unit_norm.h"
#include "layers/convolution.h"
#include "layers/dense.h"
#include "layers/dropout.h"
#include "layers/embedding.h"
#include "layers/flatten.h"
#include "layers/layer_normalization.h"
#include "layers/multi_head_attention.h"
#include "layers/position.h"
#include "layers/regularizers/l1_l2.h"
#include "layers/regularizers/orthogonal_regularizer.h"
#include "layers/rescaling.h"
#include "runtime/data/synthetic.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/metrics/categorical_accuracy.h"
#include "runtime/train/optimizers/adafactor.h"
#include "runtime/train/optimizers/adam.h"
#include "runtime/train/optimizers/lamb.h"
#include "runtime/train/optimizers/muon.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/byte_images.h"
#include "tests/support/plans.h"
#include "tests/support/small_gpt.h"

namespace meshwork::placement_test {

using namespace meshwork::test;

namespace {

constexpr std::int64_t classes = 7;

using PlacesOfLayers = std::map<std::string, std::vector<PlacedAt>>;

struct Network {
  std::string name;
  Shape sample;
  ElementType type;      // of what the model takes
  std::int64_t targets;  // a sample
  SymbolicTensor (*layers)(const SymbolicTensor&);
  PlacesOfLayers places;  // over "stage"
  LayoutEntries model;    // over "model"
  bool shares = false;    // a variable between places, which each sum up before they meet
};

// Draws and penalties, in four stages.
SymbolicTensor dense(const SymbolicTensor& input) {
  auto x = Flatten()(Rescaling({.scale = 1.0 / 255})(input));
  x = Dense({.name = "d1",
             .units = 13,
             .activation = Activation::gelu,
             .kernel_regularizer = L1L2({.l1 = 1e-4f, .l2 = 1e-3f})})(x);
  x = Dropout({.name = "drop", .rate = 0.3})(x);
  x = ActivityRegularization({.name = "penalty", .l1 = 1e-3f, .l2 = 1e-2f})(x);
  x = Dense({.name = "d2", .units = 11, .activation = Activation::relu})(x);
  return Dense({.name = "d3", .units = classes})(x);
}

// Two towers of different kernels on the same images, joined. Statistics of a batch.
SymbolicTensor towers(const SymbolicTensor& input) {
  auto trunk = RandomFlip({.name = "flip"})(Rescaling({.scale = 1.0 / 255})(input));
  std::vector<SymbolicTensor> sides;
  for (const std::int64_t size : {1, 3}) {
    sides.push_back(Sequential({Conv2D({.name = "conv",
                                        .filters = 6,
                                        .kernel_size = size,
                                        .padding = Padding::same,
                                        .use_bias = false}),
                                BatchNormalization({.name = "norm", .momentum = 0.9f}),
                                ActivationLayer({.activation = Activation::tanh})},
                               "side" + std::to_string(size))(trunk));
  }
  const auto both = Concatenate({.name = "both"})(sides);
  return Dense({.name = "classes", .units = classes})(Flatten()(both));
}

// A value that is read at its own stage and at two others.
SymbolicTensor skips(const SymbolicTensor& input) {
  const auto layer = [](const std::string& name, const SymbolicTensor& x) {
    return Dense({.name = name, .units = 12, .activation = Activation::tanh})(x);
  };
  const auto first = layer("s0", Flatten()(Rescaling({.scale = 1.0 / 255})(input)));
  const auto second = Add({.name = "k1"})({first, layer("s1", first)});
  const auto third = Add({.name = "k2"})({first, layer("s2", second)});
  return Dense({.name = "out", .units = classes})(third);
}

const std::vector<Network> networks{
    {"dense",
     {5, 3},
     ElementType::float32,
     1,
     dense,
     {{"d1", {{"stage", 0}}},
      {"drop", {{"stage", 1}}},
      {"d2", {{"stage", 2}}},
      {"d3", {{"stage", 3}}}},
     {{"d1/kernel", {{}, "model"}}, {"d2/kernel", {"model", {}}}}},
    {"gpt",
     {9},
     ElementType::int32,
     9,
     small_gpt<classes>,  // a table at the first stage and at the last

     {{"both", {{"stage", 0}}},
      {".*_a", {{"stage", 1}}},
      {"(norm|attention|mid)_b", {{"stage", 2}}},
      {"(up|down|sum)_b", {{"stage", 3}}}},
     {{"attention_.*/(query|key|value)/kernel", {{}, "model", {}}},
      {"up_.*/kernel", {{}, "model"}},
      {"down_.*/kernel", {"model", {}}}},
     true},
    {"towers",
     {6, 5, 2},
     ElementType::float32,
     1,
     towers,
     {{"side1", {{"stage", 0}}}, {"side3", {{"stage", 1}}}},
     {{"side3/conv/kernel", {{}, {}, {}, "model"}}}},
    {"skips",
     {5, 3},
     ElementType::float32,
     1,
     skips,
     {{"s0|s1", {{"stage", 0}}},
      {"k1|s2", {{"stage", 1}}},
      {"k2", {{"stage", 2}}},
      {"out", {{"stage", 3}}}},
     {}}};

std::shared_ptr<const Source> samples(const Network& network, std::int64_t rows) {
  return samples_of(network.sample, network.type, network.targets, classes, rows);
}

struct Outcome {
  std::vector<std::vector<float>> variables;
  std::map<std::string, std::vector<double>> history;
  std::vector<float> predictions;
};

Distribution placed(DeviceMesh& mesh, const LayoutEntries& entries, const PlacesOfLayers& places,
                    const StagesOptions& stages = {}) {
  LayoutMap layouts(mesh);
  for (const auto& [key, layout] : entries) layouts.insert(key, layout);
  return ModelParallel(mesh, std::move(layouts),
                       {.batch_axis = "data", .places = places, .stages = stages});
}

// Two epochs of two full batches of 26 rows and one of 3.
Outcome trained(const Network& network, Distribution distribution, const StepWalk& walk,
                const Optimizer& optimizer = Adam({.learning_rate = 0.01}), bool norm = false) {
  const SymbolicTensor input = Input(network.sample, "x", network.type);
  Model model(input, network.layers(input), std::move(distribution),
              {.seed = 3, .check_plan = true});
  model.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true}),
                 .optimizer = optimizer,
                 .metrics = {SparseCategoricalAccuracy()},
                 .gradient_norm = norm});
  const auto data = samples(network, 55);
  const History history = model.fit(data, {.epochs = 2,
                                           .batch_size = 26,
                                           .validation = samples(network, 9),
                                           .verbose = Verbosity::silent,
                                           .walk = walk});
  return {variables_of(model), history.history, model.predict(samples(network, 10))};
}

// The same bits, or the same to rounding.
void compare(const Outcome& parts, const Outcome& whole, bool rounds) {
  constexpr double tolerance = 2e-4;
  if (!rounds) {
    CHECK(parts.variables == whole.variables);
    CHECK(parts.history == whole.history);
    CHECK(parts.predictions == whole.predictions);
    return;
  }
  for (std::size_t v = 0; v < whole.variables.size(); ++v) {
    INFO("variable " << v);
    CHECK(difference(parts.variables[v], whole.variables[v], tolerance) == "");
  }
  CHECK(difference(parts.predictions, whole.predictions, tolerance) == "");
}

std::vector<std::vector<MeshAxis>> meshes() {
  const std::int64_t ranks = Communicator::world().size();
  std::vector<std::vector<MeshAxis>> all{{{"stage", ranks}, {"data", 1}, {"model", 1}}};
  if (ranks == 4) {
    all.push_back({{"stage", 2}, {"data", 2}, {"model", 1}});
    all.push_back({{"data", 1}, {"stage", 2}, {"model", 2}});
  }
  if (ranks == 8) all.push_back({{"data", 2}, {"stage", 2}, {"model", 2}});
  return all;
}

}  // namespace

TEST_CASE("a placed model computes the bits of one that is not") {
  for (const Network& network : networks) {
    for (const std::vector<MeshAxis>& axes : meshes()) {
      DeviceMesh mesh(axes);
      for (const std::int64_t micro_batches : {1, 3}) {
        INFO(network.name << " on " << to_string(mesh.shape()) << ", " << micro_batches
                          << " micro-batches");
        const StepWalk walk{.micro_batches = micro_batches};
        const Outcome whole = trained(network, placed(mesh, network.model, {}), walk);
        const Outcome parts = trained(network, placed(mesh, network.model, network.places), walk);
        const bool sums = micro_batches > 1 || mesh.shape().size(mesh.shape().axis("data")) > 1;
        compare(parts, whole, network.shares && sums);
      }
    }
  }
}

TEST_CASE("two axes place layers together") {
  if (Communicator::world().size() != 4) return;
  DeviceMesh mesh({{"stage", 2}, {"tower", 2}, {"data", 1}, {"model", 1}});
  const Network& network = networks[2];
  const PlacesOfLayers places{{"side1", {{"stage", 0}, {"tower", 0}}},
                              {"side3", {{"stage", 1}, {"tower", 1}}},
                              {"classes", {{"stage", 1}, {"tower", 0}}}};
  const StepWalk walk{.micro_batches = 2};
  compare(trained(network, placed(mesh, {}, places), walk),
          trained(network, placed(mesh, {}, {}), walk), false);
}

namespace {

// A mask that only the loss reads, where the output is; and a layer that is called at two places, once
// beside the loss.
SymbolicTensor masked(const SymbolicTensor& tokens) {
  const auto x =
      Embedding({.name = "emb", .input_dim = classes, .output_dim = 5, .mask_zero = true})(tokens);
  return Dense({.name = "out", .units = classes})(Dense({.name = "mid", .units = 6})(x));
}

}  // namespace

TEST_CASE("what only training reads elsewhere is no message of a prediction") {
  Network network = networks[1];
  network.layers = masked;
  for (const std::vector<MeshAxis>& axes : meshes()) {
    DeviceMesh mesh(axes);
    compare(trained(network,
                    placed(mesh, {}, {{"emb", {{"stage", 1}}}, {"mid|out", {{"stage", 0}}}}), {}),
            trained(network, placed(mesh, {}, {}), {}), true);
  }
}

TEST_CASE("a layer that is called at two places, where one call leads to the loss, is trained") {
  const std::int64_t ranks = Communicator::world().size();
  if (ranks % 2 != 0) return;
  DeviceMesh mesh({{"stage", 2}, {"data", 1}, {"idle", -1}});
  const auto train = [&](const PlacesOfLayers& places) {
    const SymbolicTensor input = Input({5, 3}, "x");
    const SharedLayer shared = Dense({.name = "shared", .units = 4});
    const auto first = Dense({.name = "first", .units = 6})(Flatten()(input));
    const auto second = Dense({.name = "second", .units = 6})(Flatten()(input));
    const auto d = Dense({.name = "d", .units = classes})(shared(first));
    const auto e = Dense({.name = "e", .units = classes})(shared(second));
    Model model({input}, {d, e}, placed(mesh, {}, places), {.seed = 3});
    model.compile(
        {.optimizer = SGD({.learning_rate = 0.1}),
         .outputs = {{"d", {.loss = SparseCategoricalCrossentropy({.from_logits = true})}},
                     {"e", {}}}});
    (void)model.fit(byte_images(20, {5, 3}, classes, 11),
                    {.epochs = 1, .batch_size = 8, .verbose = Verbosity::silent});
    return variables_of(model);
  };
  CHECK(train({{"first|d", {{"stage", 0}}}, {"second|e", {{"stage", 1}}}}) == train({}));
}

TEST_CASE("every schedule of a pipeline gives the same bits") {
  for (const Network& network : networks) {
    for (const std::vector<MeshAxis>& axes : meshes()) {
      DeviceMesh mesh(axes);
      StepWalk walk{.micro_batches = 4};
      const Outcome whole = trained(network, placed(mesh, network.model, {}), walk);
      for (const PipelineSchedule& schedule :
           {one_forward_one_backward(), gpipe(), zero_bubble(), in_turn()}) {
        for (const std::int64_t chunks : {1, 2}) {
          const std::int64_t stages_of_all = chunks * mesh.shape().size(mesh.shape().axis("stage"));
          if (chunks > 1 && (schedule == zero_bubble() || stages_of_all > 6)) continue;
          INFO(network.name << " on " << to_string(mesh.shape()) << ", " << schedule.name << ", "
                            << chunks << " stages at a coordinate");
          walk.schedule = schedule;
          const StagesOptions stages{.axis = "stage", .chunks = chunks};
          const Outcome parts =
              trained(network, placed(mesh, network.model, network.places, stages), walk);
          compare(parts, whole, network.shares);
        }
      }
    }
  }
}

TEST_CASE(
    "gradients that skip stages and are too large to be sent at once let no rank wait for ever") {
  constexpr std::int64_t units = 256, rows = 512;
  const auto train = [&](const PlacesOfLayers& places, const StagesOptions& stages,
                         const std::string& collectives) {
    DeviceMesh mesh({{"stage", -1}, {"data", 1}});
    const SymbolicTensor input = Input({units});
    const auto first = Dense({.name = "s0", .units = units})(input);
    auto x = first;
    for (const std::string name : {"s1", "s2", "s3", "s4"}) {
      x = Dense({.name = name, .units = units})(x);
    }
    const auto last = Dense({.name = "s5", .units = 1})(Add({.name = "sum"})({x, first}));
    Model model(input, last, DataParallel(mesh, {.places = places, .stages = stages}),
                {.seed = 3, .collectives = collectives, .check_plan = true});
    model.compile({.loss = MeanSquaredError(), .optimizer = SGD({.learning_rate = 0.01})});
    const auto data = std::make_shared<SyntheticSource>(
        rows,
        std::vector<SyntheticField>{
            {"x", {units}, ElementType::float32, FieldRole::feature, SyntheticKind::uniform, -1, 1},
            {"y", {1}, ElementType::float32, FieldRole::target, SyntheticKind::uniform, -1, 1}},
        11);
    (void)model.fit(data, {.epochs = 1,
                           .batch_size = rows,
                           .verbose = Verbosity::silent,
                           .walk = {.micro_batches = 8}});
    return variables_of(model);
  };
  PlacesOfLayers places;
  for (std::int64_t stage = 0; stage < 6; ++stage) {
    places[fmt::format("s{}", stage)] = {{"stage", stage}};
  }
  const auto whole = train({}, {}, "mpi");
  for (const std::int64_t chunks : {1, 2, 3}) {
    if (chunks > 1 && chunks * Communicator::world().size() > 6) continue;
    for (const std::string collectives : {"mpi", "shared"}) {
      INFO(chunks << " stages at a coordinate, " << collectives);
      const auto parts = train(places, {.axis = "stage", .chunks = chunks}, collectives);
      for (std::size_t v = 0; v < whole.size(); ++v) {
        CHECK(difference(parts[v], whole[v], 1e-5) == "");
      }
    }
  }
}

TEST_CASE("a run goes on from its checkpoint with another number of stages, to the same bits") {
  const std::int64_t ranks = Communicator::world().size();
  if (ranks == 3 || ranks == 8) return;  // as with 2 and 4
  const std::string directory = fmt::format("placed_{}", ranks);
  together(Communicator::world(), [&] {
    if (Communicator::world().rank() == 0) std::filesystem::remove_all(directory);
  });
  const Network& network = networks[0];
  const auto run = [&](std::int64_t stages, std::int64_t epochs, bool resumes) {
    DeviceMesh mesh({{"stage", stages}, {"data", 1}, {"model", 1}, {"idle", ranks / stages}});
    const SymbolicTensor input = Input(network.sample, "x", network.type);
    Model model(input, network.layers(input), placed(mesh, {}, network.places, {.axis = "stage"}),
                {.seed = 3});
    model.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true}),
                   .optimizer = Adam({.learning_rate = 0.01})});
    FitOptions options{.epochs = epochs,
                       .batch_size = 26,
                       .verbose = Verbosity::silent,
                       .walk = {.micro_batches = 3}};
    if (resumes) {
      options.checkpoint = {.directory = directory, .every_epochs = 1, .resume = Resume::automatic};
    }
    const History history = model.fit(samples(network, 55), options);
    return std::pair(variables_of(model), history.at("loss"));
  };
  const auto whole = run(1, 3, false);
  (void)run(std::min<std::int64_t>(ranks, 2), 1, true);
  (void)run(1, 2, true);
  const auto parts = run(ranks, 3, true);
  CHECK(parts == whole);
}

namespace {

// Norms and matrices of variables that are on some ranks, and constraints and penalties of them.
SymbolicTensor limited(const SymbolicTensor& input) {
  auto x = Flatten()(Rescaling({.scale = 1.0 / 255})(input));
  x = Dense({.name = "d1",
             .units = 13,
             .activation = Activation::gelu,
             .kernel_regularizer = OrthogonalRegularizer(),
             .kernel_constraint = MaxNorm({.max_value = 0.9})})(x);
  x = Dense({.name = "d2", .units = 11, .kernel_constraint = UnitNorm()})(x);
  return Dense({.name = "d3", .units = classes, .bias_constraint = NonNeg()})(x);
}

}  // namespace

TEST_CASE("norms, constraints and penalties are of whole variables wherever they are") {
  Network network = networks[0];
  network.layers = limited;
  network.places.erase("drop");
  const std::vector<Optimizer> optimizers{SGD({.learning_rate = 0.1, .global_clipnorm = 0.3}),
                                          SGD({.learning_rate = 0.1, .clipnorm = 0.1}),
                                          Adam({.learning_rate = 0.01, .ema = {.use = true}}),
                                          Lamb({.learning_rate = 0.01}),
                                          Adafactor({.learning_rate = 0.01}),
                                          Muon({.learning_rate = 0.01})};
  for (const std::vector<MeshAxis>& axes : meshes()) {
    DeviceMesh mesh(axes);
    for (std::size_t i = 0; i < optimizers.size(); ++i) {
      INFO("optimizer " << i << " on " << to_string(mesh.shape()));
      const auto train = [&](const PlacesOfLayers& places) {
        return trained(network, placed(mesh, network.model, places), {}, optimizers[i], true);
      };
      const Outcome parts = train(network.places), whole = train({});
      compare(parts, whole, true);
      const std::vector<double>& norms = parts.history.at("gradient_norm");
      CHECK(std::abs(norms[1] - whole.history.at("gradient_norm")[1]) <= 1e-5 * norms[1]);
    }
  }
}

}  // namespace meshwork::placement_test

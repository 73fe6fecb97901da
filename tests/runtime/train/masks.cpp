// Masks, against training worked out in double precision: on every mesh and in micro-batches. And
// what padding must not change: sequences that are padded further give the same numbers.
//
// The model of the first tests is Masking, then a dense layer on every place. The mean of a batch is
// over the places that count, on whichever rank and in whichever micro-batch they are. There are
// batches of which only one rank has such places, and of none.
#include "layers/masking.h"

#include <cmath>
#include <optional>

#include "layers/add.h"
#include "layers/batch_normalization.h"
#include "layers/concatenate.h"
#include "layers/convolution.h"
#include "layers/dense.h"
#include "layers/einsum_dense.h"
#include "layers/embedding.h"
#include "layers/flatten.h"
#include "layers/global_pooling.h"
#include "layers/group_normalization.h"
#include "layers/layer_normalization.h"
#include "layers/multi_head_attention.h"
#include "layers/permute.h"
#include "runtime/train/losses/binary_crossentropy.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/losses/mean_absolute_error.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/metrics/accuracy.h"
#include "runtime/train/metrics/binary_accuracy.h"
#include "runtime/train/metrics/confusion_metrics.h"
#include "runtime/train/objective.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/one_rank.h"

namespace meshwork::masks_test {

using namespace meshwork::test;

namespace {

constexpr std::int64_t samples = 29, length = 5, features = 3, batch = 13;
constexpr std::int64_t places = samples * length;
constexpr double rate = 0.1;

// In the second batch only the last sample counts, in the short last one none.
bool counts(std::int64_t place) {
  const std::int64_t sample = place / length;
  return sample < 2 * batch && (sample < batch || sample == 2 * batch - 1) && place % 4 != 1;
}

struct Data {
  std::vector<float> x = random_floats(places * features, 1);
  std::vector<float> targets = random_floats(places, 2, 0, 1);
  std::vector<float> weights = random_floats(places, 3, 0.25, 3);

  Data() {
    for (std::int64_t place = 0; place < places; ++place) {
      targets[static_cast<std::size_t>(place)] =
          targets[static_cast<std::size_t>(place)] > 0.4f ? 1.0f : 0.0f;
      for (std::int64_t i = 0; i < features; ++i) {
        float& value = x[static_cast<std::size_t>(place * features + i)];
        if (!counts(place)) value = -2;
      }
    }
  }
  [[nodiscard]] std::shared_ptr<const Source> source(bool weighted) const {
    std::vector<Array> arrays{Array("x", x, {samples, length, features}),
                              Array("t", targets, {samples, length, 1}, FieldRole::target)};
    if (weighted) arrays.emplace_back("w", weights, Shape{samples, length}, FieldRole::weight);
    return std::make_shared<ArraySource>(std::move(arrays));
  }
};

struct Reference {
  const Data& data;
  bool weighted;
  std::vector<double> kernel;
  double bias = 0;

  struct Epoch {
    double loss = 0;  // batches count by their rows
    double distance = 0, right = 0, counted = 0;
  };
  Epoch run(bool training) {
    Epoch epoch;
    for (std::int64_t first = 0; first < samples; first += batch) {
      const std::int64_t end = std::min(first + batch, samples);
      double counted = 0, loss = 0, db = 0;
      std::vector<double> dk(kernel.size());
      for (std::int64_t place = first * length; place < end * length; ++place) {
        counted += counts(place) ? 1 : 0;
      }
      for (std::int64_t place = first * length; place < end * length; ++place) {
        if (!counts(place)) continue;
        const auto row = static_cast<std::size_t>(place);
        double y = bias;
        for (std::size_t i = 0; i < kernel.size(); ++i) {
          y += kernel[i] * static_cast<double>(data.x[row * kernel.size() + i]);
        }
        const double t = static_cast<double>(data.targets[row]);
        const double share = (weighted ? static_cast<double>(data.weights[row]) : 1.0) / counted;
        loss += share * (y - t) * (y - t);
        epoch.distance += std::abs(y - t);
        epoch.right += (y > 0.5 ? 1.0 : 0.0) == t ? 1 : 0;
        db += 2 * share * (y - t);
        for (std::size_t i = 0; i < kernel.size(); ++i) {
          dk[i] += 2 * share * (y - t) * static_cast<double>(data.x[row * kernel.size() + i]);
        }
      }
      epoch.counted += counted;
      epoch.loss += loss * static_cast<double>(end - first) / static_cast<double>(samples);
      if (!training) continue;
      for (std::size_t i = 0; i < kernel.size(); ++i) kernel[i] -= rate * dk[i];
      bias -= rate * db;
    }
    return epoch;
  }
};

struct Spread {
  std::vector<MeshAxis> axes;
  LayoutEntries layouts;
};

/// Batches, the sequence and features split, and two of them.
std::vector<Spread> spreads() {
  const int ranks = Communicator::world().size();
  const LayoutEntries sequence{{"d/output", {"data", "model", unsharded}}};
  const LayoutEntries split{{"d/kernel", {"model", unsharded}},
                            {"m/output", {"data", unsharded, "model"}}};
  std::vector<Spread> all{{{{"data", ranks}, {"model", 1}}, {}},
                          {{{"data", 1}, {"model", ranks}}, sequence},
                          {{{"data", 1}, {"model", ranks}}, split}};
  if (ranks == 4) {
    all.push_back({{{"data", 2}, {"model", 2}}, sequence});
    all.push_back({{{"data", 2}, {"model", 2}}, split});
  }
  return all;
}

constexpr std::int64_t vocabulary = 11, width = 6;

// A transformer's encoder of tokens of which 0 is padding, to classes of places or of sequences.
SymbolicTensor encoder(const SymbolicTensor& tokens, bool of_sequences) {
  auto x = Embedding(
      {.name = "tokens", .input_dim = vocabulary, .output_dim = width, .mask_zero = true})(tokens);
  x = Add({.name = "sum"})(
      {x, MultiHeadAttention({.name = "attention", .num_heads = 2, .key_dim = 4})(
              LayerNormalization({.name = "norm"})(x))});
  if (of_sequences) x = GlobalAveragePooling1D({.name = "mean"})(x);
  return Dense({.name = "classes", .units = 4})(x);
}

// Sequences of which so many places are tokens, the others padding.
struct Texts {
  std::vector<std::int32_t> tokens, of_places, of_sequences;
  std::int64_t padded;

  explicit Texts(std::int64_t padded) : padded(padded) {
    for (std::int64_t sample = 0; sample < samples; ++sample) {
      const std::int64_t used = sample % (length + 1);
      of_sequences.push_back(static_cast<std::int32_t>(sample % 4));
      for (std::int64_t place = 0; place < padded; ++place) {
        const auto drawn = static_cast<std::int32_t>((sample * 7 + place * 3) % (vocabulary - 1));
        tokens.push_back(place < used ? drawn + 1 : 0);
        of_places.push_back(place < used ? drawn % 4 : 3);
      }
    }
  }
  [[nodiscard]] std::shared_ptr<const Source> source(bool sequences, bool weighted = false) const {
    std::vector<Array> arrays{Array("x", tokens, {samples, padded}),
                              sequences
                                  ? Array("t", of_sequences, {samples}, FieldRole::target)
                                  : Array("t", of_places, {samples, padded}, FieldRole::target)};
    if (weighted) {
      arrays.emplace_back("w", random_floats(samples, 5, 0.25, 3), Shape{samples},
                          FieldRole::weight);
    }
    return std::make_shared<ArraySource>(std::move(arrays));
  }
};

}  // namespace

TEST_CASE(
    "losses and metrics are means over places that count, on every mesh and in micro-batches") {
  const Data data;
  const bool weighted = GENERATE(false, true);
  for (const Spread& spread : spreads()) {
    for (const std::int64_t micro_batches : {1, 3}) {
      DeviceMesh mesh(spread.axes);
      INFO("weighted: " << weighted << ", " << to_string(spread.layouts) << " on "
                        << to_string(mesh.shape()) << ", micro-batches: " << micro_batches);
      const auto x = Input({length, features});
      const auto y = Dense({.name = "d", .units = 1})(Masking({.name = "m", .mask_value = -2})(x));
      Model model(x, y, spread_over(mesh, spread.layouts), {.seed = 3, .check_plan = true});
      model.compile({.loss = MeanSquaredError(),
                     .optimizer = SGD({.learning_rate = rate}),
                     .metrics = {MeanAbsoluteError(), BinaryAccuracy()}});
      Reference reference{data, weighted, {}};
      for (const float value : model.variable("d/kernel")) reference.kernel.push_back(value);
      FitOptions options{
          .epochs = 2, .batch_size = batch, .shuffle = false, .verbose = Verbosity::silent};
      options.walk = {.micro_batches = micro_batches, .recompute = micro_batches > 1 ? "m" : ""};
      options.validation = data.source(weighted);
      const History history = model.fit(data.source(weighted), options);
      const auto check = [&](const std::string& prefix, std::size_t at,
                             const Reference::Epoch& expected) {
        const auto logged = [&](const std::string& name) { return history.at(prefix + name)[at]; };
        CHECK(logged("loss") == Approx(expected.loss).epsilon(1e-5));
        CHECK(logged("mean_absolute_error") ==
              Approx(expected.distance / expected.counted).epsilon(1e-5));
        CHECK(logged("binary_accuracy") ==
              Approx(expected.right / expected.counted).epsilon(1e-12));
      };
      for (std::size_t epoch = 0; epoch < 2; ++epoch) {
        check("", epoch, reference.run(true));
        check("val_", epoch, reference.run(false));
      }
      const std::vector<float> kernel = model.variable("d/kernel");
      for (std::size_t i = 0; i < kernel.size(); ++i) {
        CHECK(kernel[i] == Approx(reference.kernel[i]).epsilon(1e-5).margin(1e-5));
      }
      CHECK(model.variable("d/bias")[0] == Approx(reference.bias).epsilon(1e-5).margin(1e-5));
    }
  }
}

TEST_CASE("padding that is longer changes no prediction, no loss and no step") {
  const bool of_sequences = GENERATE(false, true);
  const auto train = [&](std::int64_t padded, const Spread& spread, std::int64_t micro_batches) {
    DeviceMesh mesh(spread.axes);
    const Texts texts(padded);
    const auto x = Input({padded}, "", ElementType::int32);
    Model model(x, encoder(x, of_sequences), spread_over(mesh, spread.layouts), {.seed = 3});
    model.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true}),
                   .optimizer = SGD({.learning_rate = 0.5}),
                   .metrics = {Accuracy()}});
    FitOptions options{.epochs = 3, .batch_size = batch, .verbose = Verbosity::silent};
    options.walk.micro_batches = micro_batches;
    const History history = model.fit(texts.source(of_sequences), options);
    const std::vector<float> predicted =
        model.predict(texts.source(of_sequences), {.batch_size = 7});
    std::vector<float> of_tokens;
    for (std::int64_t sample = 0; sample < samples; ++sample) {
      const std::int64_t used = of_sequences ? 1 : sample % (length + 1);
      const auto first =
          predicted.begin() + static_cast<std::ptrdiff_t>(sample * (of_sequences ? 1 : padded) * 4);
      of_tokens.insert(of_tokens.end(), first, first + static_cast<std::ptrdiff_t>(used * 4));
    }
    return std::tuple{history.at("loss"), history.at("accuracy"), of_tokens, variables_of(model)};
  };
  const Spread alone{{{"data", 1}}, {}};
  const auto close = [](const std::vector<double>& a, const std::vector<double>& b) {
    for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == Approx(b[i]).epsilon(1e-5));
  };
  const int ranks = Communicator::world().size();
  const std::vector<Spread> all{
      {{{"data", ranks}, {"model", 1}}, {}},
      {{{"data", 1}, {"model", ranks}},
       {{"tokens/embeddings", {"model", unsharded}}, {"sum/output", {"data", "model", unsharded}}}},
      {{{"data", 1}, {"model", ranks}},
       {{"attention/(query|key|value)/kernel", {unsharded, "model", unsharded}},
        {"classes/kernel", {unsharded, "model"}}}}};
  const auto [loss, accuracy, predicted, variables] = train(length, all.front(), 1);
  for (const std::int64_t padded : {length, length + 4}) {
    for (const Spread& spread : all) {
      for (const std::int64_t micro_batches : {1, 2}) {
        INFO(padded << " places, " << to_string(spread.layouts)
                    << ", of sequences: " << of_sequences << ", micro-batches: " << micro_batches);
        const auto found = train(padded, spread, micro_batches);
        close(std::get<0>(found), loss);
        close(std::get<1>(found), accuracy);
        CHECK(difference(std::get<2>(found), predicted, 1e-5) == "");
        for (std::size_t v = 0; v < variables.size(); ++v) {
          CHECK(difference(std::get<3>(found)[v], variables[v], 1e-5) == "");
        }
      }
    }
  }
}

TEST_CASE("an ignored class, a mask and weights leave out and weigh what each does") {
  DeviceMesh mesh({{"data", -1}});
  Texts texts(length);
  const std::int32_t ignored = GENERATE(-1, -7);
  for (std::size_t i = 0; i < texts.tokens.size(); i += 5) texts.of_places[i] = ignored;
  const ClassWeights class_weight = GENERATE(ClassWeights(), ClassWeights{{0, 2.5}, {3, 0.5}});
  const bool weighted = GENERATE(false, true);
  const auto train = [&](bool masks) {
    Texts read = texts;
    // Without a mask of rows, the loss ignores what padding is labelled as too.
    for (std::size_t i = 0; i < read.tokens.size(); ++i) {
      if (read.tokens[i] == 0 && (!masks || ignored == -1)) read.of_places[i] = ignored;
    }
    const auto x = Input({length}, "", ElementType::int32);
    const auto y = Embedding(
        {.name = "tokens", .input_dim = vocabulary, .output_dim = width, .mask_zero = masks})(x);
    Model model(x, Dense({.name = "classes", .units = 4})(y), spread_over(mesh), {.seed = 3});
    // A masked output takes -1 for no class, whether its loss says so or not.
    const bool said = !masks || ignored != -1;
    model.compile(
        {.loss = SparseCategoricalCrossentropy(
             {.from_logits = true,
              .ignore_class = said ? std::optional<std::int64_t>(ignored) : std::nullopt}),
         .optimizer = SGD({.learning_rate = 0.5}),
         .metrics = {Accuracy()}});
    FitOptions options{.epochs = 2, .batch_size = batch, .verbose = Verbosity::silent};
    options.class_weight = class_weight;
    const History history = model.fit(read.source(false, weighted), options);
    return std::tuple{history.at("loss"), history.at("accuracy"), variables_of(model)};
  };
  CHECK(train(true) == train(false));
}

TEST_CASE("outputs of one mask count its places once") {
  const auto x = Input({length, features});
  const auto y = Masking()(x);
  const auto loss = MeanSquaredError();
  const Graph graph =
      make_graph({x}, {Dense({.name = "a", .units = 1})(y), Dense({.name = "b", .units = 2})(y)});
  const Objective objective =
      with_objective(graph, {{.loss = loss, .metrics = {MeanAbsoluteError()}}, {.loss = loss}},
                     {.targets = {{length, 1}, {length, 2}}});
  const auto counts = std::ranges::count_if(
      objective.graph->operations,
      [](const GraphOperation& operation) { return operation.operation->kind() == "mask_count"; });
  CHECK(counts == 1);
}

TEST_CASE("a mask goes with the letters of its places, and ends where they do") {
  const auto x = Input({length, features});
  const auto masked = Masking({.name = "m"})(x);
  const auto is_masked = [&](const SymbolicTensor& y) {
    const Graph graph = make_graph({x}, {y});
    return graph.tensors[graph.outputs.front()].mask >= 0;
  };
  CHECK(is_masked(masked));
  CHECK(is_masked(Dense({.units = 4})(masked)));
  CHECK(is_masked(LayerNormalization()(masked)));
  CHECK(is_masked(EinsumDense({.equation = "abc,cde->abde",
                               .output_shape = {std::nullopt, 2, 3},
                               .bias_axes = "de"})(masked)));
  CHECK(is_masked(Sequential({Dense({.units = 4}), Dense({.units = 2})})(masked)));
  CHECK(is_masked(Add()({masked, Dense({.units = features})(masked)})));
  CHECK(is_masked(MultiHeadAttention({.num_heads = 1, .key_dim = 2})(masked)));
  CHECK(is_masked(MultiHeadAttention({.num_heads = 1, .key_dim = 2})({masked, x})));
  CHECK_FALSE(is_masked(MultiHeadAttention({.num_heads = 1, .key_dim = 2})({x, masked})));
  CHECK(is_masked(GroupNormalization({.groups = 3})(masked)));
  CHECK(is_masked(Concatenate()({masked, x})));
  CHECK(is_masked(Concatenate({.axis = 1})({masked, Masking({.mask_value = 2})(x)})));
  CHECK_FALSE(is_masked(Concatenate({.axis = 1})({masked, x})));
  CHECK_FALSE(is_masked(Add()({masked, x})));
  CHECK_FALSE(is_masked(Flatten()(masked)));
  CHECK_FALSE(is_masked(Permute({.dims = {2, 1}})(masked)));
  CHECK_FALSE(is_masked(GlobalAveragePooling1D()(masked)));
  CHECK_FALSE(
      is_masked(Conv1D({.filters = 2, .kernel_size = {3}, .padding = Padding::same})(masked)));
}

TEST_CASE("of masks that differ, what one counts counts in a sum") {
  DeviceMesh mesh({{"data", -1}});
  const auto x = Input({2, 1}), z = Input({2, 1});
  const auto y = GlobalAveragePooling1D()(Add()({Masking()(x), Masking()(z)}));
  Model model({x, z}, {y}, spread_over(mesh));
  const std::vector<float> left{0, 3, 0, 0, 2, 0}, right{5, 0, 0, 4, 0, 0};
  const auto source = std::make_shared<ArraySource>(
      std::vector<Array>{Array("x", left, {3, 2, 1}), Array("z", right, {3, 2, 1})});
  // The mean is multiplied by a rounded square root, twice.
  const std::vector<float> means = model.predict(source, {.batch_size = 3});
  CHECK(difference(means, std::vector<float>{4, 4, 2}, 1e-6) == "");
}

TEST_CASE("masks of places that are joined are joined") {
  DeviceMesh mesh({{"data", -1}});
  const auto x = Input({2, 1}), z = Input({1, 1});
  const auto joined = Concatenate({.axis = 1})({Masking()(x), Masking()(z)});
  Model model({x, z}, {GlobalAveragePooling1D()(joined)}, spread_over(mesh));
  const auto source = std::make_shared<ArraySource>(
      std::vector<Array>{Array("x", std::vector<float>{0, 3, 0, 0, 2, 0}, {3, 2, 1}),
                         Array("z", std::vector<float>{5, 4, 0}, {3, 1, 1})});
  const std::vector<float> means = model.predict(source, {.batch_size = 3});
  CHECK(difference(means, std::vector<float>{4, 4, 2}, 1e-6) == "");
}

TEST_CASE("the way back to numbers has no mask, as in Keras") {
  const auto x = Input({length}, "", ElementType::int32);
  const auto table = ReversibleEmbedding({.input_dim = 5, .output_dim = 3, .mask_zero = true});
  const Graph graph = make_graph({x}, {table(table(x))});
  CHECK(graph.tensors[graph.outputs.front()].mask < 0);
  CHECK_THROWS_WITH(
      Embedding({.name = "e", .input_dim = 5, .output_dim = 3, .mask_zero = true})(
          Input({}, "", ElementType::int32)),
      Catch::Contains("e: mask_zero: expected sequences of numbers, of shape (batch, length)"));
}

TEST_CASE("statistics of a batch are refused where places are masked") {
  const auto x = Input({length, features});
  CHECK_THROWS_WITH(make_graph({x}, {BatchNormalization({.name = "statistics"})(Masking()(x))}),
                    Catch::Contains("statistics: its input has masked places") &&
                        Catch::Contains("LayerNormalization"));
  CHECK_THROWS_WITH(Masking({.name = "m"})(Input({4})),
                    Catch::Contains("m: expected sequences of shape (batch, length, features)"));
}

}  // namespace meshwork::masks_test

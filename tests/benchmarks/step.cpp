// How long a training step takes, as `fit` takes it: reading ahead, the copy to the device,
// forward, backward, reduction, update, logs.
//
//   mpirun -n 2 build/benchmarks/step NETWORK [BATCH [STEPS [SPREAD [COLLECTIVES [PRECISION [DEVICE
//     [DATA [KERNELS]]]]]]]]
//
//   mlp      784-256-256-10, ReLU, Adam, cross-entropy        (configs/fashion_mnist_mlp.yaml)
//   dropout  784-200-10, ReLU, dropout 0.4, RMSprop, squared error (configs/keras_guide_mlp.yaml)
//   convnet  three convolutions with batch normalization, Adam (configs/fashion_mnist_convnet.yaml)
//   wide     1024-4096-4096-10, ReLU, SGD, cross-entropy
//   volumes  CosmoFlow on 64 x 64 x 64, SGD with momentum     (configs/volume_regression.yaml)
//   gpt_mini, gpt_char, gpt2_64, gpt2_1024  GPT-2 of several sizes, AdamW (configs/gpt_mini.yaml)
//   towers   two towers of two convolutions on the same images, joined, SGD, cross-entropy
//   dense_towers  two towers 784-2048-2048-256 on the same images, joined, SGD, cross-entropy
//   256x8    or any width and depth: so many dense layers with ReLU, SGD, cross-entropy
//
// SPREAD is `data` (batches over the ranks), `model` (of the wide net, columns of one product and
// rows of the next), `megatron` (MegatronLayout), `sequence` (of a GPT, places), `sharded` (batches,
// and each kernel over the same ranks), `planes` (of volumes), `towers` (each on a rank of its own), a pipeline of dense layers with 8 micro-batches
// (`stages`, of 1f1b; `gpipe`; `chunks`, of two stages a rank; `bubbles`, of zero_bubble) or `parts`
// (the same micro-batches without stages). PRECISION is `float32`,
// `tf32` or `bfloat16`, DEVICE what `device:` can be, DATA `auto` or `never`: whether samples may
// stay on a device with memory of its own, KERNELS `fixed`, `timed` or a file. Numbers are
// synthetic: the arithmetic is the same. Printed is one line of JSON: milliseconds a step, with
// quartiles, and the seconds of the first pass, which makes the program; "gains": whether products
// are faster in PRECISION than in float32; "scheduled": what the kernels of a
// pipeline's ranks would take in the order of its schedule.
//
// On a processor the step loop is profiled (--profile of `meshwork train`), each step is timed by
// itself, and the parts of a step are printed too. A device that works beside the processor is not
// disturbed: an epoch of 100 steps, at whose end all is waited for, is timed as a whole, and the
// quartiles are those of epochs.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "layers/add.h"
#include "layers/concatenate.h"
#include "layers/convolution.h"
#include "layers/dense.h"
#include "layers/dropout.h"
#include "layers/embedding.h"
#include "layers/flatten.h"
#include "layers/layer_normalization.h"
#include "layers/leaky_relu.h"
#include "layers/multi_head_attention.h"
#include "layers/pooling.h"
#include "layers/position.h"
#include "layers/rescaling.h"
#include "layers/reshape.h"
#include "runtime/data/synthetic.h"
#include "runtime/data/views.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/device/kernels/precision.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/metrics/categorical_accuracy.h"
#include "runtime/train/model.h"
#include "runtime/train/optimizers/adam.h"
#include "runtime/train/optimizers/rmsprop.h"
#include "runtime/train/optimizers/sgd.h"
#include "runtime/train/reporting/profile.h"
#include "runtime/train/strategies/megatron_layout.h"
#include "tests/support/convnet.h"

using namespace meshwork;

namespace {

using Clock = std::chrono::steady_clock;

class StepTimes final : public Callback {
 public:
  std::string class_name() const override { return "StepTimes"; }
  bool decides_alike() const override { return true; }
  explicit StepTimes(bool by_epoch) : by_epoch_(by_epoch) {}
  void on_epoch_begin(Training&) override { last_ = Clock::now(); }
  void on_train_batch_end(Training&) override {
    if (!by_epoch_) note(1);
  }
  void on_epoch_end(Training& training) override {
    if (!by_epoch_) return;
    (void)training.logs();  // waits for the device
    note(training.position().batches);
  }
  /// The quarter of the steps that `part` quarters of them undercut.
  [[nodiscard]] double quartile(std::size_t part) {
    std::sort(milliseconds_.begin(), milliseconds_.end());
    return milliseconds_[milliseconds_.size() * part / 4];
  }
  void clear() { milliseconds_.clear(); }

 private:
  void note(std::int64_t steps) {
    const Clock::time_point now = Clock::now();
    milliseconds_.push_back(std::chrono::duration<double, std::milli>(now - last_).count() /
                            static_cast<double>(steps));
    last_ = now;
  }

  bool by_epoch_;
  Clock::time_point last_;
  std::vector<double> milliseconds_;
};

struct Network {
  std::int64_t batch;  // by default
  Shape shape;         // of a sample
  ElementType type;    // of the input
  bool classes;        // labels; else numbers
  std::int64_t outputs;
  std::function<SymbolicTensor(const SymbolicTensor&)> layers;
  std::function<Optimizer()> optimizer;
};

SymbolicTensor mlp(const SymbolicTensor& input) {
  auto x = Flatten()(Rescaling({.scale = 1.0 / 255})(input));
  x = Dense({.units = 256, .activation = Activation::relu})(x);
  x = Dense({.units = 256, .activation = Activation::relu})(x);
  return Dense({.units = 10})(x);
}

SymbolicTensor with_dropout(const SymbolicTensor& input) {
  auto x = Flatten()(input);
  x = Dense({.units = 200, .activation = Activation::relu, .use_bias = false})(x);
  return Dense({.units = 10, .activation = Activation::softmax})(Dropout({.rate = 0.4})(x));
}

SymbolicTensor convnet(const SymbolicTensor& input) {
  return test::convnet(
      Rescaling({.scale = 1.0 / 255})(Reshape({.target_shape = {28, 28, 1}})(input)));
}

SymbolicTensor wide(const SymbolicTensor& input) {
  auto x = Dense({.name = "d1", .units = 4096, .activation = Activation::relu})(input);
  x = Dense({.name = "d2", .units = 4096, .activation = Activation::relu})(x);
  return Dense({.name = "d3", .units = 10})(x);
}

SymbolicTensor volumes(SymbolicTensor x) {
  for (const std::int64_t filters : {32, 64, 128, 256, 512}) {
    x = Conv3D({.filters = filters, .kernel_size = 2, .padding = Padding::same})(x);
    x = MaxPooling3D()(LeakyReLU()(x));
  }
  x = Flatten()(x);
  for (const std::int64_t units : {128, 64}) {
    x = Dropout({.rate = 0.5})(LeakyReLU()(Dense({.units = units})(x)));
  }
  return Rescaling({.scale = 1.2})(Dense({.units = 4, .activation = Activation::tanh})(x));
}

struct Transformer {
  int blocks;
  std::int64_t heads, width, length, tokens;
};

Network gpt(std::int64_t batch, const Transformer& of) {
  const auto layers = [of](const SymbolicTensor& tokens) {
    const auto norm = [] { return LayerNormalization({.epsilon = 1e-5F}); };
    const SharedLayer table = ReversibleEmbedding({.input_dim = of.tokens, .output_dim = of.width});
    auto x = table(tokens);
    x = Add()({x, PositionEmbedding({.sequence_length = of.length})(x)});
    for (int block = 0; block < of.blocks; ++block) {
      x = Add()({x, MultiHeadAttention({.num_heads = of.heads,
                                        .key_dim = of.width / of.heads,
                                        .use_causal_mask = true})(norm()(x))});
      const auto hidden =
          Dense({.units = 4 * of.width, .activation = Activation::gelu_tanh})(norm()(x));
      x = Add()({x, Dense({.units = of.width})(hidden)});
    }
    return table(norm()(x));
  };
  return {batch, {of.length}, ElementType::int32, true, of.tokens, layers, [] {
            return Optimizer(AdamW({.learning_rate = 1e-3, .weight_decay = 0.1}));
          }};
}

// Of equal work, as kernels of a row and of a column are.
SymbolicTensor towers(const SymbolicTensor& input) {
  const auto images =
      Rescaling({.scale = 1.0 / 255})(Reshape({.target_shape = {28, 28, 1}})(input));
  std::vector<SymbolicTensor> sides;
  // Kernels of equal size, since a row and a column of as many weights do not take equally long.
  for (const std::string side : {"left", "right"}) {
    const auto convolution = [&](const std::string& name) {
      return Conv2D({.name = name,
                     .filters = 32,
                     .kernel_size = 3,
                     .padding = Padding::same,
                     .activation = Activation::relu});
    };
    sides.push_back(MaxPooling2D({.name = side + "_pool", .pool_size = 4})(
        convolution(side + "_2")(convolution(side + "_1")(images))));
  }
  return Dense({.name = "classes", .units = 10})(Flatten()(Concatenate()(sides)));
}

// Their gradients are large beside their work, and no rank has both.
SymbolicTensor dense_towers(const SymbolicTensor& input) {
  const auto images = Flatten()(Rescaling({.scale = 1.0 / 255})(input));
  const auto side = [&](const std::string& name) {
    const auto layer = [&](const std::string& suffix, std::int64_t units) {
      return Dense({.name = name + suffix, .units = units, .activation = Activation::relu});
    };
    return layer("_3", 256)(layer("_2", 2048)(layer("_1", 2048)(images)));
  };
  return Dense({.name = "classes", .units = 10})(Concatenate()({side("left"), side("right")}));
}

const std::map<std::string, Network>& networks() {
  const auto adam = [] { return Optimizer(Adam({.learning_rate = 1e-3})); };
  const auto rmsprop = [] { return Optimizer(RMSprop()); };
  const auto sgd = [] { return Optimizer(SGD({.learning_rate = 1e-3})); };
  const auto momentum = [] { return Optimizer(SGD({.learning_rate = 1e-3, .momentum = 0.9})); };
  using enum ElementType;
  static const std::map<std::string, Network> all{
      {"mlp", {64, {28, 28}, uint8, true, 10, mlp, adam}},
      {"dropout", {64, {28, 28}, float32, false, 10, with_dropout, rmsprop}},
      {"convnet", {64, {28, 28}, uint8, true, 10, convnet, adam}},
      {"towers", {64, {28, 28}, uint8, true, 10, towers, sgd}},
      {"dense_towers", {64, {28, 28}, uint8, true, 10, dense_towers, sgd}},
      {"volumes", {4, {64, 64, 64, 4}, float32, false, 4, volumes, momentum}},
      {"gpt_mini", gpt(12, {4, 4, 128, 64, 256})},
      {"gpt_char", gpt(16, {6, 6, 384, 256, 256})},
      {"gpt2_64", gpt(4, {12, 12, 768, 64, 50257})},
      {"gpt2_1024", gpt(1, {12, 12, 768, 1024, 50257})},
      {"wide", {256, {1024}, float32, true, 10, wide, sgd}}};
  return all;
}

/// "256x8": dense layers of equal width; nothing for another name.
std::optional<Network> of_dense_layers(const std::string& name, int& depth) {
  long width = 0;
  if (std::sscanf(name.c_str(), "%ldx%d", &width, &depth) != 2 || width < 1 || depth < 1) {
    return std::nullopt;
  }
  const auto layers = [width, depth = depth](SymbolicTensor x) {
    for (int i = 0; i < depth; ++i) {
      x = Dense({.units = width, .activation = Activation::relu})(x);
    }
    return Dense({.units = 10})(x);
  };
  return Network{64, {width}, ElementType::float32, true, 10, layers, [] {
                   return Optimizer(SGD({.learning_rate = 1e-3}));
                 }};
}

std::shared_ptr<const Source> samples(const Network& network, std::int64_t rows) {
  const bool bytes = network.type == ElementType::uint8;
  const bool tokens = network.type == ElementType::int32;
  SyntheticField input{.name = "x",
                       .shape = network.shape,
                       .type = network.type,
                       .role = FieldRole::feature,
                       .kind = tokens ? SyntheticKind::classes : SyntheticKind::uniform,
                       .low = 0,
                       .high = bytes ? 255.0 : 1.0,
                       .classes = network.outputs};
  SyntheticField target{.name = "y", .role = FieldRole::target};
  if (network.classes) {
    target.shape = tokens ? network.shape : Shape{};
    target.type = tokens ? ElementType::int32 : ElementType::uint8;
    target.kind = SyntheticKind::classes;
    target.classes = network.outputs;
  } else {
    target.shape = {network.outputs};
    target.type = ElementType::float32;
    target.kind = SyntheticKind::uniform;
  }
  return cached(std::make_shared<SyntheticSource>(
      rows, std::vector<SyntheticField>{std::move(input), std::move(target)}, 1));
}

bool is_pipeline(const std::string& how) {
  return how == "stages" || how == "gpipe" || how == "chunks" || how == "bubbles";
}

// `depth` is how many dense layers there are.
Distribution spread(DeviceMesh& mesh, const std::string& how, int depth) {
  LayoutMap layouts(mesh);
  if (how == "data") {
    return DataParallel(mesh);
  }
  if (how == "model") {
    layouts["d1/kernel"] = {unsharded, "ranks"};
    layouts["d1/bias"] = {"ranks"};
    layouts["d2/kernel"] = {"ranks", unsharded};
    return ModelParallel(mesh, layouts, {.batch_axis = ""});
  }
  if (how == "megatron") {
    return MegatronLayout(mesh, {.axis = "ranks"}, {.batch_axis = ""});
  }
  if (how == "sequence") {
    layouts["add.*/output"] = {unsharded, "ranks", unsharded};
    return ModelParallel(mesh, layouts, {.batch_axis = ""});
  }
  if (how == "planes") {
    const TensorLayout planes{unsharded, "ranks", unsharded, unsharded, unsharded};
    layouts["input"] = planes;
    layouts["(conv|max_pooling).*/output"] = planes;
    return ModelParallel(mesh, layouts, {.batch_axis = ""});
  }
  if (how == "sharded") {
    layouts[".*kernel"] = {"ranks", unsharded};
    return ModelParallel(mesh, layouts);
  }
  if (how == "towers") {
    return ModelParallel(mesh, layouts,
                         {.places = {{"left.*", {{"ranks", 0}}}, {"right.*", {{"ranks", 1}}}}});
  }
  if (how == "parts") {
    return DataParallel(mesh, {.batch_axis = ""});
  }
  if (is_pipeline(how)) {
    DistributionOptions options;
    options.stages = {.axis = "ranks", .chunks = how == "chunks" ? 2 : 1};
    for (int layer = 0; layer < depth; ++layer) {
      options.places[layer == 0 ? "dense" : fmt::format("dense_{}", layer)] = {{"ranks", layer}};
    }
    return ModelParallel(mesh, layouts, options);
  }
  fail(
      "SPREAD is data, model, megatron, sequence, sharded, planes, towers, stages, gpipe, chunks, "
      "bubbles or parts, not \"{}\"",
      how);
}

void run(int argc, char** argv) {
  const auto argument = [&](int index, const std::string& otherwise) {
    return argc > index ? std::string(argv[index]) : otherwise;
  };
  const std::string name = argument(1, "mlp");
  const auto found = networks().find(name);
  int depth = 0;
  const std::optional<Network> dense = of_dense_layers(name, depth);
  if (found == networks().end() && !dense) {
    std::string known;
    for (const auto& [one, network] : networks()) known += one + ", ";
    fail("NETWORK is {}or a width and a depth such as 256x8, not \"{}\"", known, name);
  }
  const Network& network = dense ? *dense : found->second;
  const std::int64_t batch = std::stoll(argument(2, std::to_string(network.batch)));
  const std::int64_t steps = std::stoll(argument(3, "200"));
  const std::string how = argument(4, "data");
  const std::string of_products = argument(6, "float32");
  const auto precision = std::find_if(all_precisions.begin(), all_precisions.end(),
                                      [&](Precision one) { return name_of(one) == of_products; });
  if (precision == all_precisions.end()) {
    fail("PRECISION is float32, tf32 or bfloat16, not \"{}\"", of_products);
  }
  const std::string kind = argument(7, "auto");
  std::unique_ptr<Device> device = make_device({.kind = kind});
  const bool beside = !device->traits().computes_in_host_memory;
  const bool gains = device->is_faster_in(*precision);
  device.reset();
  const std::string resident = argument(8, "auto");
  if (resident != "auto" && resident != "never") {
    fail("DATA is auto or never, not \"{}\"", resident);
  }

  DeviceMesh mesh({{"ranks", -1}});
  const bool tokens = network.type == ElementType::int32;
  const auto input =
      Input(network.shape, "input", tokens ? ElementType::int32 : ElementType::float32);
  Model model(input, network.layers(input), spread(mesh, how, depth),
              {.device = kind,
               .collectives = argument(5, "auto"),
               .precision = *precision,
               .kernels = argument(9, "fixed")});
  CompileOptions options{.loss = network.classes
                                     ? SparseCategoricalCrossentropy({.from_logits = true})
                                     : MeanSquaredError(),
                         .optimizer = network.optimizer()};
  if (network.classes && !tokens) {
    options.metrics = {SparseCategoricalAccuracy()};
  }
  model.compile(std::move(options));
  const auto times = std::make_shared<StepTimes>(beside);
  FitOptions fit{
      .epochs = 1,
      .batch_size = batch,
      .shuffle = false,
      .callbacks = {times},
      .verbose = Verbosity::silent,
      .data_on_device = resident == "auto" ? DataOnDevice::automatic : DataOnDevice::never,
      .profile = !beside};
  if (is_pipeline(how) || how == "parts") fit.walk.micro_batches = 8;
  if (how == "gpipe") fit.walk.schedule = gpipe();
  if (how == "bubbles") fit.walk.schedule = zero_bubble();
  // The first passes fill the cache and warm everything up: the same steps as below, which for
  // samples that stay on a device are those of several epochs.
  const std::int64_t of_epoch = std::min<std::int64_t>(steps, beside ? 100 : 50);
  const auto data = samples(network, batch * of_epoch);
  fit.epochs = beside ? 2 : 1;
  const Clock::time_point begin = Clock::now();
  (void)model.fit(data, fit);
  const double first_pass = std::chrono::duration<double>(Clock::now() - begin).count();
  times->clear();
  fit.epochs = 1 + (StepProfile::warm_up + steps) / of_epoch;
  const History history = model.fit(data, fit);
  if (mesh.rank() == 0 && beside) {
    fmt::print(R"({{"network": "{}", "batch": {}, "ranks": {}, "spread": "{}", "precision": "{}", )"
               R"("device": "{}", "data": "{}", "ms": {:.4f}, "lower": {:.4f}, "upper": {:.4f}}})"
               "\n",
               name, batch, mesh.shape().rank_count(), how, of_products, kind, resident,
               times->quartile(2), times->quartile(1), times->quartile(3));
  }
  if (mesh.rank() == 0 && history.step_parts) {
    const StepParts& parts = *history.step_parts;
    fmt::print(R"({{"network": "{}", "batch": {}, "ranks": {}, "spread": "{}", "precision": "{}", )"
               R"("gains": {}, "kernel_choice": "{}", "ms": {:.4f}, )"
               R"("lower": {:.4f}, "upper": {:.4f}, "kernels": {:.4f}, "collectives": {:.4f}, )"
               R"("waiting": {:.4f}, "reading": {:.4f}, "feeding": {:.4f}, "between": {:.4f}, )"
               R"("scheduled": {:.4f}, "first_pass_s": {:.2f}}})"
               "\n",
               name, batch, mesh.shape().rank_count(), how, of_products, gains,
               argument(9, "fixed"), times->quartile(2), times->quartile(1), times->quartile(3),
               parts.kernels * 1e3, parts.collectives * 1e3, parts.waiting * 1e3,
               parts.reading * 1e3, parts.feeding * 1e3, parts.between * 1e3, parts.scheduled * 1e3,
               first_pass);
  }
}

}  // namespace

int main(int argc, char** argv) {
  MpiEnvironment environment(&argc, &argv);
  try {
    run(argc, argv);
  } catch (const std::exception& error) {
    abort_job(2, error.what());
  }
}

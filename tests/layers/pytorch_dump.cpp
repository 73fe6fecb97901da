// Writes what Meshwork computes for two networks to the folder that it is given: initial variables,
// data, predictions, gradients, the losses of ten steps and the variables behind them. pytorch.py
// computes the same with PyTorch and compares.
//
// Each array is a file of little-endian float32, NAME.f32; `index.txt` has a line "NAME length..."
// for each.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "collectives/error.h"
#include "layers/batch_normalization.h"
#include "layers/borders.h"
#include "layers/conv_transpose.h"
#include "layers/convolution.h"
#include "layers/dense.h"
#include "layers/flatten.h"
#include "layers/pooling.h"
#include "layers/up_sampling.h"
#include "runtime/data/array.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/model.h"
#include "runtime/train/optimizers/sgd.h"
#include "runtime/train/runtime.h"
#include "tests/support/convnet.h"

using namespace meshwork;

namespace {

constexpr std::int64_t batch = 8;
constexpr std::int64_t classes = 10;

class Folder {
 public:
  explicit Folder(std::filesystem::path path)
      : path_(std::move(path)), index_(path_ / "index.txt") {}
  void write(std::string name, const Shape& shape, const std::vector<float>& values) {
    for (char& letter : name) {
      letter = letter == '/' ? '.' : letter;
    }
    index_ << name;
    for (const std::int64_t length : shape) {
      index_ << ' ' << length;
    }
    index_ << '\n';
    std::ofstream file(path_ / (name + ".f32"), std::ios::binary);
    file.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(float)));
    if (!file || !index_) {
      fail("cannot write to {}", path_.string());
    }
  }

 private:
  std::filesystem::path path_;
  std::ofstream index_;
};

// Without dropout, whose masks are our own.
SymbolicTensor convnet(const SymbolicTensor& image) {
  return test::convnet(image, {.dropout = 0});
}

// Everything else: padding that is uneven, strides that do not divide, dilation, groups, both kinds
// of pooling and of enlarging.
SymbolicTensor collection(const SymbolicTensor& image) {
  auto y = ZeroPadding2D({.padding = {{1, 2}, {0, 3}}})(image);
  y = Conv2D({.filters = 8, .kernel_size = {4, 3}, .strides = {2, 3}})(y);
  y = BatchNormalization({.momentum = 0.9})(y);
  y = Conv2D({.filters = 12,
              .kernel_size = 3,
              .padding = Padding::same,
              .dilation_rate = 2,
              .groups = 4,
              .activation = Activation::tanh})(y);
  y = UpSampling2D({.size = {1, 2}, .interpolation = Interpolation::bilinear})(y);
  y = MaxPooling2D({.pool_size = 3, .strides = 2, .padding = Padding::same})(y);
  y = Conv2DTranspose(
      {.filters = 6, .kernel_size = {3, 4}, .strides = 2, .padding = Padding::same})(y);
  y = AveragePooling2D({.pool_size = {3, 2}, .strides = 2, .padding = Padding::same})(y);
  y = Conv2DTranspose({.filters = 5, .kernel_size = {2, 3}, .strides = {3, 2}})(y);
  y = UpSampling2D({.size = {2, 1}})(y);
  y = MaxPooling2D({.pool_size = {4, 3}})(y);
  return Dense({.units = classes})(Flatten()(y));
}

std::vector<float> numbers(std::int64_t count, unsigned seed) {
  std::vector<float> values;
  std::uint32_t word = seed;
  for (std::int64_t i = 0; i < count; ++i) {
    word = word * 1664525 + 1013904223;
    values.push_back(static_cast<float>(word >> 8) / 16777216.0f);
  }
  return values;
}

void dump(Folder& folder, const std::string& name,
          SymbolicTensor (*network)(const SymbolicTensor&)) {
  const Shape sample{28, 28, 1};
  const std::vector<float> images = numbers(batch * element_count(sample), 1);
  std::vector<float> labels = numbers(batch, 2);
  for (float& label : labels) {
    label = std::floor(label * static_cast<float>(classes));
  }
  folder.write(name + "/images", {batch, 28, 28, 1}, images);
  folder.write(name + "/labels", {batch}, labels);
  const BatchView data{.rows = batch, .inputs = {images}, .targets = {labels}};
  std::vector<Array> arrays{Array("images", images, {batch, 28, 28, 1}),
                            Array("labels", labels, {batch}, FieldRole::target)};
  const auto source = std::make_shared<ArraySource>(std::move(arrays));

  DeviceMesh mesh({{"data", 1}});
  const auto write_variables = [&](Model& model, const std::string& when) {
    for (const Variable& variable : model.graph().variables) {
      folder.write(name + "/" + when + "/" + variable.path, variable.options.shape,
                   model.variable(variable.path));
    }
  };
  // A step of rate 1 takes away the gradient.
  for (const bool gradients : {true, false}) {
    const auto image = Input(sample);
    Model model(image, network(image), DataParallel(mesh), {.seed = 3});
    model.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true}),
                   .optimizer = gradients ? SGD({.learning_rate = 1.0})
                                          : SGD({.learning_rate = 0.02, .momentum = 0.9})});
    write_variables(model, gradients ? "before" : "start");
    std::vector<float> losses;
    for (int step = 0; step < (gradients ? 1 : 10); ++step) {
      losses.push_back(static_cast<float>(model.train_step(data).at("loss")));
    }
    write_variables(model, gradients ? "stepped" : "trained");
    folder.write(name + (gradients ? "/loss" : "/losses"),
                 {static_cast<std::int64_t>(losses.size())}, losses);
    if (!gradients) {
      folder.write(name + "/predicted", {batch, classes},
                   model.predict(source, {.batch_size = batch, .prefetch = false}));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Runtime runtime(argc, argv);
  if (argc != 2) {
    fail("expected the folder to write to, found {} arguments", argc - 1);
  }
  Folder folder(argv[1]);
  dump(folder, "convnet", convnet);
  dump(folder, "collection", collection);
  return 0;
}

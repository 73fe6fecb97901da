// The network of Keras's guide to mirrored training: Fashion-MNIST, data-parallel, the last 10,000
// images kept for validation. The same as configs/mirrored_mlp.yaml.
//
//     mpirun -n 4 build/examples/mirrored_mlp [FOLDER] [EPOCHS]
#include <meshwork/meshwork.h>

#include <cstdio>
#include <cstdlib>

using namespace meshwork;

int main(int argc, char** argv) {
  Runtime runtime(argc, argv);
  const std::string folder = argc > 1 ? argv[1] : "/usr/share/datasets/fashion-mnist";
  const int epochs = argc > 2 ? std::atoi(argv[2]) : 2;

  const auto images = [&](const std::string& set) {
    return std::make_shared<IdxSource>(std::vector<IdxFile>{
        {"images", folder + "/" + set + "-images-idx3-ubyte.gz"},
        {"labels", folder + "/" + set + "-labels-idx1-ubyte.gz", FieldRole::target}});
  };
  const ValidationSplit split = split_for_validation(images("train"), 10000.0 / 60000);

  DeviceMesh mesh({{"data", -1}});
  auto input = Input({28, 28});
  auto x = Rescaling({.scale = 1.0f / 255})(input);
  x = Flatten()(x);
  x = Dense({.units = 256, .activation = Activation::relu})(x);
  x = Dense({.units = 256, .activation = Activation::relu})(x);
  x = Dense({.units = 10})(x);

  Model model(input, x, DataParallel(mesh), {.seed = 1});
  model.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true}),
                 .optimizer = Adam(),
                 .metrics = {SparseCategoricalAccuracy()}});
  model.fit(split.training, {.epochs = epochs, .batch_size = 32, .validation = split.validation});

  const Logs test = model.evaluate(images("t10k"));
  if (runtime.is_root()) {
    std::printf("test accuracy: %.4f\n", test.at("sparse_categorical_accuracy"));
  }
}

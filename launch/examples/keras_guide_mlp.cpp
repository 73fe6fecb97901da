// The network of Keras's guide to distributed training, on noise: data-parallel, or spread over a
// second axis by a layout map. The same as configs/keras_guide_mlp.yaml and
// configs/keras_guide_mlp_model_parallel.yaml.
//
//     mpirun -n 8 build/examples/keras_guide_mlp         # data-parallel
//     mpirun -n 8 build/examples/keras_guide_mlp 4       # data=2, model=4
#include <meshwork/meshwork.h>

#include <cstdlib>

using namespace meshwork;

int main(int argc, char** argv) {
  Runtime runtime(argc, argv);
  const int model_ranks = argc > 1 ? std::atoi(argv[1]) : 1;
  DeviceMesh mesh({{"data", -1}, {"model", model_ranks}});

  // Path of a variable or output: for each dimension the axis that splits it. While `model` has one
  // rank this is data parallelism.
  LayoutMap layouts(mesh);
  layouts["d1/kernel"] = {unsharded, "model"};
  layouts["d2/output"] = {"data", unsharded};

  auto images = Input({28, 28, 1});
  auto x = Flatten()(images);
  x = Dense({.name = "d1", .units = 200, .activation = Activation::relu, .use_bias = false})(x);
  x = Dropout({.rate = 0.4f})(x);
  x = Dense({.name = "d2", .units = 10, .activation = Activation::softmax})(x);

  Model model(images, x, ModelParallel(mesh, layouts, {.batch_axis = "data"}));
  model.compile({.loss = MeanSquaredError(), .optimizer = RMSprop()});

  // 128 samples, made up alike on every rank; each rank computes only those of its rows.
  const auto noise = std::make_shared<SyntheticSource>(
      128,
      std::vector<SyntheticField>{{.name = "images", .shape = {28, 28, 1}},
                                  {.name = "targets", .shape = {10}, .role = FieldRole::target}},
      /*seed=*/0);
  model.fit(noise, {.epochs = 3, .batch_size = 16});
}

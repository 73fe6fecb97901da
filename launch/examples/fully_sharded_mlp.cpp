// Fully sharded data parallelism: kernels are split over the axis that splits batches, gathered for
// use and their gradients scattered, and the plan shows it. The same as
// configs/fully_sharded_mlp.yaml, on made-up data.
//
//     mpirun -n 4 build/examples/fully_sharded_mlp
#include <meshwork/meshwork.h>

#include <cstdio>

using namespace meshwork;

int main(int argc, char** argv) {
  Runtime runtime(argc, argv);
  DeviceMesh mesh({{"data", -1}});

  auto input = Input({784});
  auto x = Dense({.units = 512, .activation = Activation::relu})(input);
  x = Dense({.units = 512, .activation = Activation::relu})(x);
  x = Dense({.units = 10})(x);
  Model model(input, x, FullyShardedDataParallel(mesh), {.seed = 7});
  model.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true}),
                 .optimizer = AdamW({.learning_rate = 1e-3, .weight_decay = 0.01}),
                 .metrics = {Accuracy()}});

  const auto data = std::make_shared<SyntheticSource>(
      1024,
      std::vector<SyntheticField>{{.name = "features", .shape = {784}},
                                  {.name = "labels",
                                   .type = ElementType::int32,
                                   .role = FieldRole::target,
                                   .kind = SyntheticKind::linear_classes,
                                   .classes = 10}},
      /*seed=*/7);
  const PlanReport plan = model.plan(data, 64);
  if (runtime.is_root()) {
    std::printf("%s\n", to_text(plan).c_str());
  }
  model.fit(data, {.epochs = 2, .batch_size = 64});
}

// The layout map of TensorFlow's guide "Using DTensors with Keras", on each of its models: a
// class, functional and sequential. One map over
// paths shards all three. See configs/dtensor_guide_layouts.yaml.
//
//     mpirun -n 8 build/examples/dtensor_guide
#include <meshwork/meshwork.h>

#include <cstdio>

using namespace meshwork;

namespace {

class SubclassedModel : public LayerBlock {
 public:
  SubclassedModel()
      : feature_(add("feature", Dense({.units = 16}))),
        feature_2_(add("feature_2", Dense({.units = 24}))),
        dropout_(add("dropout", Dropout({.rate = 0.1f}))) {}

  SymbolicTensor call(const std::vector<SymbolicTensor>& inputs) const override {
    return feature_2_(dropout_(feature_(inputs.front())));
  }

 private:
  SharedLayer feature_, feature_2_, dropout_;
};

// Trains `model` on a linear map of random inputs, of as many outputs as it has.
void train(Model& model, const char* form, std::int64_t outputs, const Runtime& runtime) {
  model.compile({.loss = MeanSquaredError(), .optimizer = Adam({.learning_rate = 0.01})});
  const auto samples = std::make_shared<SyntheticSource>(
      1024,
      std::vector<SyntheticField>{{.name = "x", .shape = {16}},
                                  {.name = "y",
                                   .shape = {outputs},
                                   .role = FieldRole::target,
                                   .kind = SyntheticKind::linear}},
      /*seed=*/1337);
  const History history =
      model.fit(samples, {.epochs = 3, .batch_size = 16, .verbose = Verbosity::silent});
  if (runtime.is_root()) {
    std::printf("%s: loss %.4f, then %.4f\n", form, history.at("loss").front(),
                history.at("loss").back());
  }
}

}  // namespace

int main(int argc, char** argv) {
  Runtime runtime(argc, argv);
  DeviceMesh mesh({{"batch", -1}});

  // The first dimension of each kernel and bias is split along the axis that splits batches. In a
  // Sequential paths begin with its name, so these patterns begin with what may stand there.
  LayoutMap layouts(mesh);
  layouts[".*feature.*kernel"] = {"batch", unsharded};
  layouts[".*feature.*bias"] = {"batch"};
  const Distribution distribution = ModelParallel(mesh, layouts, {.batch_axis = "batch"});

  Model subclassed({16}, std::make_shared<SubclassedModel>(), distribution, {.seed = 1337});
  train(subclassed, "class", 24, runtime);

  auto input = Input({16});
  auto x = Dense({.name = "feature", .units = 16})(input);
  x = Dropout({.rate = 0.1f})(x);
  auto output = Dense({.name = "feature_2", .units = 32})(x);
  Model functional(input, output, distribution, {.seed = 1337});
  train(functional, "functional", 32, runtime);

  auto y = Sequential({Dense({.name = "feature", .units = 16}), Dropout({.rate = 0.1f}),
                       Dense({.name = "feature_2", .units = 32})})(input);
  Model sequential(input, y, distribution, {.seed = 1337});
  train(sequential, "sequential", 32, runtime);
}

// The classifier of the DTensor tutorial: a model written as a class with named sub-layers, spread
// by patterns over their paths. The same as configs/dtensor_classifier.yaml.
//
//     mpirun -n 4 build/examples/dtensor_classifier      # batch=2, model=2
#include <meshwork/meshwork.h>

#include <cstdio>

using namespace meshwork;

// Two dense layers, `feature` and `feature_2`; what is said about one path holds for both.
class Classifier : public LayerBlock {
 public:
  explicit Classifier(std::int64_t classes)
      : feature_(add("feature", Dense({.units = 48, .activation = Activation::relu}))),
        dropout_(add("dropout", Dropout({.rate = 0.1f}))),
        feature_2_(add("feature_2", Dense({.units = classes}))) {}

  SymbolicTensor call(const std::vector<SymbolicTensor>& inputs) const override {
    return feature_2_(dropout_(feature_(inputs.front())));
  }

 private:
  SharedLayer feature_, dropout_, feature_2_;
};

int main(int argc, char** argv) {
  Runtime runtime(argc, argv);
  DeviceMesh mesh({{"batch", -1}, {"model", runtime.size() % 2 == 0 ? 2 : 1}});

  LayoutMap layouts(mesh);
  layouts["feature.*kernel"] = {unsharded, "model"};
  layouts["feature.*bias"] = {"model"};

  Model model({1200}, std::make_shared<Classifier>(2),
              ModelParallel(mesh, layouts, {.batch_axis = "batch"}), {.seed = 1337});
  model.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true}),
                 .optimizer = SGD({.learning_rate = 0.1}),
                 .metrics = {Accuracy()}});

  // Word counts of texts, standardised; made up, with labels that follow from them.
  const auto texts = std::make_shared<SyntheticSource>(
      8192,
      std::vector<SyntheticField>{{.name = "words", .shape = {1200}},
                                  {.name = "labels",
                                   .type = ElementType::int32,
                                   .role = FieldRole::target,
                                   .kind = SyntheticKind::linear_classes,
                                   .classes = 2}},
      /*seed=*/1337);
  const History history =
      model.fit(texts, {.epochs = 3, .batch_size = 128, .validation_split = 0.125});
  if (runtime.is_root()) {
    std::printf("validation accuracy: %.4f\n", history.at("val_accuracy").back());
  }
}

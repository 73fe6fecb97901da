// Dense layers, activations, reshapes, joins, losses and metrics, spread in every legal way.
#include <algorithm>
#include <functional>
#include <memory>
#include <random>

#include "layers/activation.h"
#include "layers/add.h"
#include "layers/category_encoding.h"
#include "layers/concatenate.h"
#include "layers/dense.h"
#include "layers/dot.h"
#include "layers/dropout.h"
#include "layers/flatten.h"
#include "layers/initializers/random_uniform.h"
#include "layers/leaky_relu.h"
#include "layers/merging.h"
#include "layers/noise.h"
#include "layers/prelu.h"
#include "layers/rescaling.h"
#include "layers/reshape.h"
#include "layers/unit_normalization.h"
#include "runtime/graph/operations/activation.h"
#include "runtime/train/losses/binary_crossentropy.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/losses/mean_absolute_error.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/metrics/accuracy.h"
#include "runtime/train/metrics/binary_accuracy.h"
#include "runtime/train/metrics/categorical_accuracy.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/layer_spread.h"

namespace meshwork::spread_test {

using namespace meshwork::test;

namespace {

std::vector<Case> dense_cases() {
  std::vector<Case> cases;
  const auto dense = [&](Activation activation, bool bias, bool deep) {
    std::vector<std::string> spread{"layer/kernel", "layer/output", "front/output"};
    if (bias) {
      spread.emplace_back("layer/bias");
    }
    append(cases, with_and_without_tail(
                      fmt::format("Dense {}{}{}", name_of(activation), bias ? "" : " without bias",
                                  deep ? " on 3 dimensions" : ""),
                      deep ? Shape{3, 2} : Shape{2},
                      [=](const SymbolicTensor& x) {
                        return Dense({.name = "layer",
                                      .units = 5,
                                      .activation = activation,
                                      .use_bias = bias,
                                      .bias_initializer = RandomUniform()})(front(7)(x));
                      },
                      spread));
  };
  // One of the activations of single elements stands for the others, which layers of their own show.
  for (const Activation activation : {Activation::linear, Activation::gelu, Activation::softmax}) {
    for (const bool bias : {true, false}) {
      for (const bool deep : {false, true}) {
        dense(activation, bias, deep);
      }
    }
  }
  for (const Activation activation : {Activation::relu, Activation::sigmoid, Activation::tanh}) {
    dense(activation, true, false);
  }
  return cases;
}

std::vector<float> class_numbers(const Shape& shape) {
  std::vector<float> numbers = random_floats(element_count(shape), 31, 0, 5);
  for (float& number : numbers) {
    number = std::min(std::floor(number), 4.0f);
  }
  return numbers;
}

std::vector<Case> other_cases() {
  std::vector<Case> cases;
  for (const Activation activation : all_activations()) {
    append(cases,
           with_and_without_tail(fmt::format("Activation {}", name_of(activation)),
                                 activation == Activation::softmax ? Shape{3, 2} : Shape{2},
                                 [=](const SymbolicTensor& x) {
                                   return ActivationLayer(
                                       {.name = "layer", .activation = activation})(front(5)(x));
                                 },
                                 {"layer/output", "front/output", "front/kernel"}));
  }
  append(cases,
         with_and_without_tail("Dropout", {3, 2},
                               [](const SymbolicTensor& x) {
                                 return Dropout({.name = "layer", .rate = 0.4f})(front(5)(x));
                               },
                               {"layer/output", "front/output"}));
  const auto alone = [&](const std::string& name, const SharedLayer& layer) {
    append(cases, with_and_without_tail(name, {3, 2},
                                        [=](const SymbolicTensor& x) { return layer(front(5)(x)); },
                                        {"layer/output", "front/output"}));
  };
  alone("Noise that is added", GaussianNoise({.name = "layer", .stddev = 0.5f}));
  alone("Noise that multiplies", GaussianDropout({.name = "layer", .rate = 0.2f}));
  alone("Noise that drops to a value", AlphaDropout({.name = "layer", .rate = 0.4f}));
  alone("Noise that drops channels", SpatialDropout1D({.name = "layer", .rate = 0.4f}));
  alone("UnitNormalization", UnitNormalization({.name = "layer"}));
  alone("UnitNormalization of a middle dimension", UnitNormalization({.name = "layer", .axis = 1}));
  append(cases, with_and_without_tail(
                    "Rescaling", {3, 2},
                    [](const SymbolicTensor& x) {
                      return Rescaling({.name = "layer", .scale = 0.5f, .offset = 1})(front(5)(x));
                    },
                    {"layer/output", "front/output"}));
  append(cases, with_and_without_tail(
                    "Flatten", {3, 2},
                    [](const SymbolicTensor& x) { return Flatten({.name = "layer"})(front(5)(x)); },
                    {"layer/output", "front/output"}));
  for (const Shape& target :
       {Shape{5, 3}, Shape{3, 5}, Shape{15}, Shape{1, 15, 1}, Shape{3, 1, 5}}) {
    append(cases, with_and_without_tail("Reshape to " + to_string(target), {3, 2},
                                        [=](const SymbolicTensor& x) {
                                          return Reshape({.name = "layer", .target_shape = target})(
                                              front(5)(x));
                                        },
                                        {"layer/output", "front/output"}));
  }
  append(cases,
         with_and_without_tail("Add", {3, 2},
                               [](const SymbolicTensor& x) {
                                 return Add({.name = "layer"})({front(5)(x), front(5, "other")(x)});
                               },
                               {"layer/output", "front/output", "other/output"}));
  struct Merging {
    const char* name;
    SharedLayer (*layer)(MergingOptions);
  };
  for (const auto& [name, layer] :
       {Merging{"Multiply", Multiply}, Merging{"Average", Average}, Merging{"Maximum", Maximum},
        Merging{"Minimum", Minimum}, Merging{"Subtract", Subtract}}) {
    append(cases, with_and_without_tail(
                      name, {3, 2},
                      [layer = layer](const SymbolicTensor& x) {
                        return layer({.name = "layer"})({front(5)(x), front(5, "other")(x)});
                      },
                      {"layer/output", "front/output", "other/output"}));
  }
  append(cases,
         with_and_without_tail("Maximum of three", {3, 2},
                               [](const SymbolicTensor& x) {
                                 return Maximum({.name = "layer"})(
                                     {front(5)(x), front(5, "other")(x), front(5, "third")(x)});
                               },
                               {"layer/output", "front/output", "third/output"}));
  for (const bool normalize : {false, true}) {
    append(cases,
           with_and_without_tail(
               normalize ? "Dot of vectors of length 1" : "Dot", {3, 2},
               [=](const SymbolicTensor& x) {
                 return Dot({.name = "layer", .axes = normalize ? 2 : 1, .normalize = normalize})(
                     {front(5)(x), front(5, "other")(x)});
               },
               {"layer/output", "front/output", "other/output"}));
  }
  append(cases, with_and_without_tail(
                    "Dot of vectors", {2},
                    [](const SymbolicTensor& x) {
                      return Dot({.name = "layer", .axes = 1})({front(5)(x), front(5, "other")(x)});
                    },
                    {"layer/output", "front/output", "other/output"}));
  append(cases, with_and_without_tail("LeakyReLU", {3, 2},
                                      [](const SymbolicTensor& x) {
                                        return LeakyReLU({.name = "layer"})(front(5)(x));
                                      },
                                      {"layer/output", "front/output"}));
  append(cases, with_and_without_tail("ELU", {3, 2},
                                      [](const SymbolicTensor& x) {
                                        return ELU({.name = "layer", .alpha = 0.5f})(front(5)(x));
                                      },
                                      {"layer/output", "front/output"}));
  for (const bool shared : {false, true}) {
    append(cases,
           with_and_without_tail(
               shared ? "PReLU with a shared slope" : "PReLU", {3, 2},
               [=](const SymbolicTensor& x) {
                 return PReLU({.name = "layer",
                               .alpha_initializer = RandomUniform(),
                               .shared_axes = shared ? std::vector<std::int64_t>{1}
                                                     : std::vector<std::int64_t>{}})(front(5)(x));
               },
               {"layer/alpha", "layer/output", "front/output"}));
  }
  append(cases, with_and_without_tail("Add of the same value twice", {3, 2},
                                      [](const SymbolicTensor& x) {
                                        const auto y = front(5)(x);
                                        return Add({.name = "layer"})({y, y});
                                      },
                                      {"layer/output", "front/output"}));
  append(cases, with_and_without_tail(
                    "Concatenate of the last dimension", {3, 2},
                    [](const SymbolicTensor& x) {
                      return Concatenate({.name = "layer"})({front(5)(x), front(2, "other")(x)});
                    },
                    {"layer/output", "front/output", "other/output"}));
  append(
      cases,
      with_and_without_tail(
          "Concatenate of a middle dimension", {3, 2},
          [](const SymbolicTensor& x) {
            const auto y = Reshape({.name = "apart", .target_shape = {1, 6}})(x);
            return Concatenate({.name = "layer", .axis = 1})({front(5)(x), front(5, "other")(y)});
          },
          {"layer/output", "front/output", "other/output"}));
  append(cases, with_and_without_tail(
                    "a layer called twice", {7},
                    [](const SymbolicTensor& x) {
                      const auto shared = Dense({.name = "layer", .units = 7});
                      return shared(ActivationLayer(
                          {.name = "between", .activation = Activation::tanh})(shared(x)));
                    },
                    {"layer/kernel", "layer/bias", "between/output"}));
  append(cases,
         with_and_without_tail(
             "a block", {3},
             [](const SymbolicTensor& x) {
               return Sequential({Dense({.name = "inner", .units = 5}),
                                  ActivationLayer({.activation = Activation::relu}),
                                  Dense({.name = "outer", .units = 7})},
                                 "layer")(front(5)(x));
             },
             {"layer/inner/kernel", "layer/outer/kernel", "layer/output", "layer/inner/output"}));
  append(cases, with_and_without_tail("two branches", {5},
                                      [](const SymbolicTensor& x) {
                                        const auto y = front(7)(x);
                                        const auto a = Dense({.name = "a", .units = 3})(y);
                                        const auto b = Dense({.name = "b", .units = 3})(y);
                                        return Add({.name = "layer"})({a, b});
                                      },
                                      {"a/kernel", "b/kernel", "front/kernel", "front/output"}));
  for (const auto& [name, mode] : {std::pair{"one_hot", CategoryOutput::one_hot},
                                   {"multi_hot", CategoryOutput::multi_hot},
                                   {"count", CategoryOutput::count}}) {
    cases.push_back({std::string("CategoryEncoding ") + name,
                     {3, 7},
                     [mode = mode](const SymbolicTensor& x) {
                       const auto y = CategoryEncoding(
                           {.name = "layer", .num_tokens = 5, .output_mode = mode})(x);
                       return Dense({.name = "tail", .units = 3})(y);
                     },
                     {"input", "layer/output", "tail/kernel"},
                     MeanSquaredError(),
                     {},
                     {},
                     class_numbers});
  }
  return cases;
}

// A prediction of 5 classes for 3 rows a sample.
Build classes(bool probabilities) {
  return [=](const SymbolicTensor& x) {
    return Dense({.name = "layer",
                  .units = 5,
                  .activation = probabilities ? Activation::softmax : Activation::linear})(
        front(7)(x));
  };
}

std::vector<float> one_hot(const Shape& shape) {
  const std::vector<float> numbers = class_numbers(Shape(shape.begin(), shape.end() - 1));
  std::vector<float> weights(numbers.size() * 5, 0);
  for (std::size_t row = 0; row < numbers.size(); ++row) {
    weights[row * 5 + static_cast<std::size_t>(numbers[row])] = 1;
  }
  return weights;
}

std::vector<float> bits(const Shape& shape) {
  std::vector<float> values = random_floats(element_count(shape), 37);
  for (float& value : values) {
    value = value > 0 ? 1 : 0;
  }
  return values;
}

std::vector<Case> loss_cases() {
  const std::vector<std::string> spread{"layer/output", "layer/kernel"};
  std::vector<Case> cases;
  for (const Shape& sample : {Shape{2}, Shape{3, 2}}) {
    const std::string deep = sample.size() > 1 ? ", rows of 3" : "";
    for (const bool logits : {true, false}) {
      const std::string form = (logits ? ", logits" : ", probabilities") + deep;
      cases.push_back(
          {"sparse cross-entropy" + form,
           sample,
           classes(!logits),
           spread,
           SparseCategoricalCrossentropy({.from_logits = logits}),
           {SparseCategoricalAccuracy(), SparseTopKCategoricalAccuracy({.k = 2}), Accuracy()},
           class_numbers});
      cases.push_back({"categorical cross-entropy" + form,
                       sample,
                       classes(!logits),
                       spread,
                       CategoricalCrossentropy({.from_logits = logits, .label_smoothing = 0.1}),
                       {CategoricalAccuracy(), TopKCategoricalAccuracy({.k = 2}), Accuracy(),
                        MeanSquaredError()},
                       one_hot});
      cases.push_back({"binary cross-entropy" + form,
                       sample,
                       [=](const SymbolicTensor& x) {
                         return Dense({.name = "layer",
                                       .units = 5,
                                       .activation = logits ? Activation::linear
                                                            : Activation::sigmoid})(front(7)(x));
                       },
                       spread,
                       BinaryCrossentropy({.from_logits = logits}),
                       {BinaryAccuracy()},
                       bits});
    }
    cases.push_back({"mean squared error" + deep,
                     sample,
                     classes(false),
                     spread,
                     MeanSquaredError(),
                     {MeanAbsoluteError(), BinaryAccuracy()},
                     {}});
    cases.push_back({"mean absolute error" + deep,
                     sample,
                     classes(false),
                     spread,
                     MeanAbsoluteError(),
                     {MeanSquaredError({.name = "squares"})},
                     {}});
  }
  return cases;
}

}  // namespace

namespace {

// All-gathers of predictions in a training step.
std::ptrdiff_t gathered_predictions(const Case& subject, Distribution distribution) {
  const auto input = Input(subject.sample);
  Model model(input, subject.build(input), std::move(distribution), {.seed = 5});
  model.compile({.loss = subject.loss});
  const std::int64_t prediction = rows * element_count(model.output_shapes().front());
  const PlanReport report = model.plan(samples_of(subject.layer_case()).source(), rows);
  return std::ranges::count_if(report.collectives, [&](const CollectiveRecord& record) {
    return record.name == "all_gather" && record.global_elements == prediction;
  });
}

}  // namespace

TEST_CASE("on one rank the gradients of every case are those of differences") {
  if (Communicator::world().size() > 1) {
    return;  // the same on every rank
  }
  check_differences(dense_cases());
  std::vector<Case> others = other_cases();
  // Dropout evaluates another function than it trains.
  std::erase_if(others, [](const Case& subject) {
    return subject.name.starts_with("Dropout") || subject.name.starts_with("Noise");
  });
  check_differences(others);
  check_differences(loss_cases());
}

TEST_CASE("a dense layer, spread in any way, gives the numbers of one rank") {
  check(dense_cases(), 4);
}

TEST_CASE("every other layer, spread in any way, gives the numbers of one rank") {
  check(other_cases(), 4);
}

TEST_CASE("every loss and metric, spread in any way, gives the numbers of one rank") {
  check(loss_cases(), 4);
}

// Small rows of classes are cheaper gathered; these are not. 20011 classes, 11 rows.
// So many classes that gathering them would cost more than the collectives of the rows, for any
// number of ranks.
TEST_CASE("rows of many split classes are compared where they are") {
  const std::int64_t ranks = Communicator::world().size();
  const auto many = [](const Shape& shape) {
    std::vector<float> numbers = random_floats(element_count(shape), 41, 0, 20011);
    for (float& number : numbers) {
      number = std::min(std::floor(number), 20010.0f);
    }
    return numbers;
  };
  const auto weights = [](const Shape& shape) {
    return random_floats(element_count(shape), 43, 0, 1.0 / 10000);
  };
  DeviceMesh mesh({{"data", ranks % 2 == 0 ? 2 : 1}, {"model", -1}});
  for (const bool logits : {true, false}) {
    for (const bool sparse : {true, false}) {
      const Case subject{fmt::format("{} cross-entropy, {}", sparse ? "sparse" : "categorical",
                                     logits ? "logits" : "probabilities"),
                         {2},
                         [=](const SymbolicTensor& x) {
                           return Dense({.name = "layer",
                                         .units = 20011,
                                         .activation = logits ? Activation::linear
                                                              : Activation::softmax})(front(3)(x));
                         },
                         {},
                         sparse ? SparseCategoricalCrossentropy({.from_logits = logits})
                                : CategoricalCrossentropy({.from_logits = logits}),
                         {sparse ? SparseCategoricalAccuracy() : CategoricalAccuracy(),
                          sparse ? SparseTopKCategoricalAccuracy({.k = 7000})
                                 : TopKCategoricalAccuracy({.k = 7000})},
                         sparse ? std::function(many) : std::function(weights)};
      DeviceMesh self = alone();
      const LayerOutcome one = run(subject, spread_over(self));
      for (const std::string batch_axis : {"data", ""}) {
        INFO(subject.name << " on " << meshwork::to_string(mesh.shape()) << ", batches over \""
                          << batch_axis << '"');
        const Distribution distribution = spread_over(
            mesh,
            {{"layer/kernel", {unsharded, "model"}},
             {"layer/bias", {"model"}},
             {"layer/output",
              {DimensionAxes(std::vector<std::string>(batch_axis.empty() ? 0 : 1, batch_axis)),
               "model"}}},
            batch_axis);
        const LayerOutcome found = run(subject, distribution);
        const auto input = Input(subject.sample);
        compare(found, one, make_graph({input}, {subject.build(input)}).variables);
        CHECK(gathered_predictions(subject, distribution) == 0);
      }
    }
  }
}

}  // namespace meshwork::spread_test

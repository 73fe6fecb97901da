// Every rule against the truth: each layer, spread in every legal way, gives the numbers of one
// rank.
//
// A case is a layer behind a dense layer "front", whose gradients show that of the layer's input,
// and before a dense layer "tail" or directly before the loss. A layout is chosen for each variable
// of the layer and for its output: every assignment of mesh axes to dimensions, several axes on one
// dimension in each order. One step of plain descent with rate 1 turns gradients into changes of
// the variables, which are compared, with the prediction and the loss. Lengths are primes or odd,
// so blocks are unequal, and some are empty.
//
// Where there are more combinations than time, they are drawn: for each tensor every layout of its
// own at least once, and beyond that combinations by a generator with a fixed seed.
//
// That one rank is right follows from differences of the loss, for every case.
//
// Tolerance: sums of at most a few hundred float32 products in another order differ by less than
// 1e-5 of the largest element.
#include <algorithm>
#include <functional>
#include <memory>
#include <random>

#include "layers/activation.h"
#include "layers/add.h"
#include "layers/concatenate.h"
#include "layers/dense.h"
#include "layers/dropout.h"
#include "layers/flatten.h"
#include "layers/rescaling.h"
#include "layers/reshape.h"
#include "runtime/graph/operations/activation.h"
#include "runtime/train/losses/binary_crossentropy.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/losses/mean_absolute_error.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/losses/sparse_categorical_crossentropy.h"
#include "runtime/train/metrics/accuracy.h"
#include "runtime/train/metrics/binary_accuracy.h"
#include "runtime/train/metrics/categorical_accuracy.h"
#include "runtime/train/metrics/top_k_categorical_accuracy.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/one_rank.h"

using namespace meshwork;
using namespace meshwork::test;

namespace {

constexpr double tolerance = 1e-5;
constexpr std::int64_t rows = 11;

using Build = std::function<SymbolicTensor(const SymbolicTensor&)>;

struct Case {
  std::string name;
  Shape sample;                     // of the input
  Build build;                      // from the input to the prediction
  std::vector<std::string> spread;  // paths whose layouts are varied
  SharedLoss loss = MeanSquaredError();
  std::vector<SharedMetric> metrics;
  std::function<std::vector<float>(const Shape&)> targets;  // for a shape with the batch
};

struct Outcome {
  std::vector<float> predicted;
  Logs evaluated, trained;
  std::vector<std::vector<float>> variables;  // after one step
  int gathered_classes = 0;                   // all-gathers of predictions in a training step
};

struct Samples {
  Shape batch_shape, target_shape;
  std::vector<float> features, targets;
  [[nodiscard]] BatchView batch() const {
    return {.rows = rows, .inputs = {features}, .target = targets};
  }
};

Samples samples_for(const Case& subject) {
  Samples samples;
  samples.batch_shape = subject.sample;
  samples.batch_shape.insert(samples.batch_shape.begin(), rows);
  samples.features = random_floats(element_count(samples.batch_shape), 17);
  const auto input = Input(subject.sample);
  samples.target_shape = subject.loss->target_shape(subject.build(input).shape());
  samples.target_shape[0] = rows;
  samples.targets = subject.targets ? subject.targets(samples.target_shape)
                                    : random_floats(element_count(samples.target_shape), 23);
  return samples;
}

Outcome run(const Case& subject, Distribution distribution) {
  const auto input = Input(subject.sample);
  Model model(input, subject.build(input), std::move(distribution), {.seed = 5});
  model.compile(
      {.loss = subject.loss, .optimizer = SGD({.learning_rate = 1.0}), .metrics = subject.metrics});
  const Samples samples = samples_for(subject);
  std::vector<Array> arrays{
      Array("features", samples.features, samples.batch_shape),
      Array("targets", samples.targets, samples.target_shape, FieldRole::target)};
  const auto source = std::make_shared<ArraySource>(std::move(arrays));
  Outcome outcome;
  outcome.predicted = model.predict(source, {.batch_size = rows, .prefetch = false});
  if (!subject.metrics.empty()) {
    outcome.evaluated = model.evaluate(source, {.batch_size = rows, .prefetch = false});
  }
  outcome.trained = model.train_step(samples.batch());
  outcome.variables = variables_of(model);
  const std::int64_t prediction = rows * element_count(model.output_shape());
  for (const CollectiveRecord& record : model.plan(source, rows).collectives) {
    if (record.kind == CollectiveKind::all_gather && record.global_elements == prediction) {
      ++outcome.gathered_classes;
    }
  }
  return outcome;
}

void compare(const Outcome& found, const Outcome& expected, const std::vector<Variable>& names) {
  CHECK(difference(found.predicted, expected.predicted, tolerance) == "");
  CHECK(difference(found.evaluated, expected.evaluated, tolerance) == "");
  CHECK(difference(found.trained, expected.trained, tolerance) == "");
  REQUIRE(found.variables.size() == expected.variables.size());
  for (std::size_t v = 0; v < expected.variables.size(); ++v) {
    INFO("the gradient of " << names[v].path);
    CHECK(difference(found.variables[v], expected.variables[v], tolerance) == "");
  }
}

// ---- layouts --------------------------------------------------------------------------------

// Every layout of a tensor of `dimensions` dimensions over the axes from `next` on.
void add_layouts(const std::vector<MeshAxis>& axes, std::size_t next, TensorLayout layout,
                 std::vector<TensorLayout>& all) {
  if (next == axes.size()) {
    all.push_back(std::move(layout));
    return;
  }
  add_layouts(axes, next + 1, layout, all);
  for (DimensionAxes& dimension : layout) {
    // At every place among the axes that are there already.
    for (std::size_t place = 0; place <= dimension.axes.size(); ++place) {
      const DimensionAxes before = dimension;
      dimension.axes.insert(dimension.axes.begin() + static_cast<std::ptrdiff_t>(place),
                            axes[next].name);
      add_layouts(axes, next + 1, layout, all);
      dimension = before;
    }
  }
}

std::vector<TensorLayout> layouts_of(const std::vector<MeshAxis>& axes, std::size_t dimensions) {
  std::vector<TensorLayout> all;
  add_layouts(axes, 0, TensorLayout(dimensions), all);
  return all;
}

// A choice of one layout for each path, by index; 0 is the one that splits nothing, and is left to
// the planner.
std::vector<std::vector<std::size_t>> combinations(const std::vector<std::size_t>& counts,
                                                   std::size_t limit, unsigned seed) {
  std::size_t all = 1;
  for (const std::size_t count : counts) {
    all *= count;
  }
  std::vector<std::vector<std::size_t>> chosen;
  if (all <= limit) {
    for (std::size_t number = 0; number < all; ++number) {
      std::vector<std::size_t> choice;
      std::size_t rest = number;
      for (const std::size_t count : counts) {
        choice.push_back(rest % count);
        rest /= count;
      }
      chosen.push_back(std::move(choice));
    }
    return chosen;
  }
  // Latin: in every round each path goes through all of its layouts, each in an order of its own.
  std::mt19937 words(seed);
  std::vector<std::vector<std::size_t>> orders(counts.size());
  while (chosen.size() < limit) {
    std::vector<std::size_t> choice;
    for (std::size_t p = 0; p < counts.size(); ++p) {
      if (orders[p].empty()) {
        for (std::size_t i = 0; i < counts[p]; ++i) {
          orders[p].insert(
              orders[p].begin() + static_cast<std::ptrdiff_t>(words() % (orders[p].size() + 1)), i);
        }
      }
      choice.push_back(orders[p].back());
      orders[p].pop_back();
    }
    chosen.push_back(std::move(choice));
  }
  return chosen;
}

struct TestedMesh {
  std::vector<MeshAxis> axes;
  std::size_t limit;  // combinations of a case
};

std::vector<TestedMesh> meshes(int ranks, std::size_t scale) {
  switch (ranks) {
    case 1:
      return {{{{"x", 1}, {"y", 1}}, 2 * scale}};
    case 2:
      return {{{{"x", 2}}, 8 * scale}, {{{"x", 1}, {"y", 2}}, scale}};
    case 3:
      return {{{{"x", 3}}, 4 * scale}};
    case 4:
      return {{{{"x", 2}, {"y", 2}}, 2 * scale}, {{{"x", 4}}, scale / 2}};
    default:
      return {{{{"x", 2}, {"y", ranks / 2}}, scale / 4},
              {{{"x", 2}, {"y", 2}, {"z", ranks / 4}}, scale / 4}};
  }
}

// Runs all cases on all meshes. `scale` says how many combinations of a case: fewer where more
// ranks share the cores of the machine.
void check(const std::vector<Case>& cases, std::size_t scale) {
  const Communicator world = Communicator::world();
  std::size_t runs = 0;
  for (const TestedMesh& tested : meshes(world.size(), scale)) {
    DeviceMesh mesh(tested.axes);
    std::vector<std::string> batch_axes{""};
    for (const MeshAxis& axis : tested.axes) {
      if (axis.size > 1 || world.size() == 1) {
        batch_axes.push_back(axis.name);
      }
    }
    unsigned number = 0;
    for (const Case& subject : cases) {
      ++number;
      DeviceMesh self = alone();
      const Outcome one = run(subject, spread_over(self));
      const Graph graph = [&] {
        const auto input = Input(subject.sample);
        return make_graph({input}, {subject.build(input)});
      }();
      std::vector<std::vector<TensorLayout>> layouts;
      std::vector<std::size_t> counts{batch_axes.size()};
      for (const std::string& path : subject.spread) {
        const TensorId tensor = graph.find(path);
        INFO(subject.name << " has no " << path);
        REQUIRE(tensor >= 0);
        layouts.push_back(layouts_of(tested.axes, graph.tensors[tensor].shape.size()));
        counts.push_back(layouts.back().size());
      }
      for (const std::vector<std::size_t>& choice : combinations(counts, tested.limit, number)) {
        LayoutEntries entries;
        for (std::size_t p = 0; p < layouts.size(); ++p) {
          if (choice[p + 1] != 0) {
            entries.emplace_back(subject.spread[p], layouts[p][choice[p + 1]]);
          }
        }
        const std::string& batch_axis = batch_axes[choice[0]];
        INFO(subject.name << " on " << meshwork::to_string(mesh.shape()) << ", "
                          << test::to_string(entries) << ", batches over \"" << batch_axis << '"');
        compare(run(subject, spread_over(mesh, entries, batch_axis)), one, graph.variables);
        ++runs;
      }
    }
  }
  CHECK(runs >= cases.size());
}

// ---- cases ----------------------------------------------------------------------------------

SharedLayer front(std::int64_t units, const std::string& name = "front") {
  return Dense(
      {.name = name, .units = units, .bias_initializer = initializer_by_name("random_uniform")});
}

// The layer behind `front` and before nothing or a tail.
std::vector<Case> with_and_without_tail(const std::string& name, const Shape& sample,
                                        const Build& build, std::vector<std::string> spread) {
  std::vector<Case> cases;
  for (const bool tail : {false, true}) {
    cases.push_back({name + (tail ? ", then a dense layer" : ""),
                     sample,
                     [=](const SymbolicTensor& x) {
                       const auto y = build(x);
                       return tail ? Dense({.name = "tail", .units = 3})(y) : y;
                     },
                     spread,
                     MeanSquaredError(),
                     {},
                     {}});
  }
  return cases;
}

void append(std::vector<Case>& cases, std::vector<Case> more) {
  std::move(more.begin(), more.end(), std::back_inserter(cases));
}

std::vector<Case> dense_cases() {
  std::vector<Case> cases;
  for (const Activation activation : {Activation::linear, Activation::relu, Activation::gelu,
                                      Activation::sigmoid, Activation::tanh, Activation::softmax}) {
    for (const bool bias : {true, false}) {
      for (const bool deep : {false, true}) {
        std::vector<std::string> spread{"layer/kernel", "layer/output", "front/output"};
        if (bias) {
          spread.emplace_back("layer/bias");
        }
        append(cases, with_and_without_tail(
                          fmt::format("Dense {}{}{}", name_of(activation),
                                      bias ? "" : " without bias", deep ? " on 3 dimensions" : ""),
                          deep ? Shape{3, 2} : Shape{2},
                          [=](const SymbolicTensor& x) {
                            return Dense({.name = "layer",
                                          .units = 5,
                                          .activation = activation,
                                          .use_bias = bias,
                                          .bias_initializer =
                                              initializer_by_name("random_uniform")})(front(7)(x));
                          },
                          spread));
      }
    }
  }
  return cases;
}

std::vector<Case> other_cases() {
  std::vector<Case> cases;
  for (const Activation activation : {Activation::linear, Activation::relu, Activation::gelu,
                                      Activation::sigmoid, Activation::tanh, Activation::softmax}) {
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

std::vector<float> class_numbers(const Shape& shape) {
  std::vector<float> numbers = random_floats(element_count(shape), 31, 0, 5);
  for (float& number : numbers) {
    number = std::min(std::floor(number), 4.0f);
  }
  return numbers;
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

// The gradients of a step on one rank against differences of the loss. The step is small, so that
// few values of relu pass its kink on the way: float32 loses 2e-7 / 1e-3 of a loss near 1, and a
// kink that is passed counts for one of some fifty values.
void check_differences(const std::vector<Case>& cases) {
  constexpr float step = 5e-4f;
  for (const Case& subject : cases) {
    INFO(subject.name);
    DeviceMesh self = alone();
    const Outcome outcome = run(subject, spread_over(self));
    const Samples samples = samples_for(subject);
    const auto input = Input(subject.sample);
    Model model(input, subject.build(input), spread_over(self), {.seed = 5});
    model.compile({.loss = subject.loss});
    for (std::size_t v = 0; v < outcome.variables.size(); ++v) {
      const std::string& path = model.graph().variables[v].path;
      INFO("the gradient of " << path);
      const std::vector<float> before = model.variable(path);
      std::vector<float> gradient;
      std::vector<float> differences;
      for (std::size_t i = 0; i < before.size(); ++i) {
        const auto loss_at = [&](float value) {
          std::vector<float> moved = before;
          moved[i] = value;
          model.set_variable(path, moved);
          return model.evaluate_step(samples.batch()).at("loss");
        };
        const float above = before[i] + step;
        const float below = before[i] - step;
        differences.push_back(static_cast<float>((loss_at(above) - loss_at(below)) /
                                                 (double{above} - double{below})));
        gradient.push_back(before[i] - outcome.variables[v][i]);
      }
      model.set_variable(path, before);
      CHECK(difference(gradient, differences, 1e-2) == "");
    }
  }
}

}  // namespace

TEST_CASE("on one rank the gradients of every case are those of differences") {
  if (Communicator::world().size() > 1) {
    return;  // the same on every rank
  }
  check_differences(dense_cases());
  std::vector<Case> others = other_cases();
  // Dropout evaluates another function than it trains.
  std::erase_if(others, [](const Case& subject) { return subject.name.starts_with("Dropout"); });
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
      const Outcome one = run(subject, spread_over(self));
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
        const Outcome found = run(subject, distribution);
        const auto input = Input(subject.sample);
        compare(found, one, make_graph({input}, {subject.build(input)}).variables);
        CHECK(found.gathered_classes == 0);
      }
    }
  }
}

// Every rule against the truth: layers, spread in every legal way, give the numbers of one rank.
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
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "layers/dense.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/one_rank.h"

namespace meshwork::test {

inline constexpr double tolerance = 1e-5;
inline constexpr std::int64_t rows = 11;

using Build = std::function<SymbolicTensor(const SymbolicTensor&)>;

struct Case {
  std::string name;
  Shape sample;                     // of the input
  Build build;                      // from the input to the prediction
  std::vector<std::string> spread;  // paths whose layouts are varied
  SharedLoss loss = MeanSquaredError();
  std::vector<SharedMetric> metrics;
  // For a shape with the batch; null: random numbers.
  std::function<std::vector<float>(const Shape&)> targets;
  std::function<std::vector<float>(const Shape&)> features = {};
  ElementType dtype = ElementType::float32;  // of the input
  [[nodiscard]] SymbolicTensor input() const { return Input(sample, "", dtype); }
};

struct Outcome {
  std::vector<float> predicted;
  Logs evaluated, trained;
  std::vector<std::vector<float>> variables;  // after one step
};

struct Samples {
  Shape batch_shape, target_shape;
  std::vector<float> features, targets;
  [[nodiscard]] BatchView batch() const {
    return {.rows = rows, .inputs = {features}, .targets = {targets}};
  }
};

inline Samples samples_for(const Case& subject) {
  Samples samples;
  samples.batch_shape = subject.sample;
  samples.batch_shape.insert(samples.batch_shape.begin(), rows);
  samples.features = subject.features ? subject.features(samples.batch_shape)
                                      : random_floats(element_count(samples.batch_shape), 17);
  const auto input = subject.input();
  samples.target_shape = subject.loss->target_shape(subject.build(input).shape());
  samples.target_shape[0] = rows;
  samples.targets = subject.targets ? subject.targets(samples.target_shape)
                                    : random_floats(element_count(samples.target_shape), 23);
  return samples;
}

inline std::shared_ptr<const Source> source_of(const Samples& samples) {
  std::vector<Array> arrays{
      Array("features", samples.features, samples.batch_shape),
      Array("targets", samples.targets, samples.target_shape, FieldRole::target)};
  return std::make_shared<ArraySource>(std::move(arrays));
}

inline Outcome run(const Case& subject, Distribution distribution) {
  const auto input = subject.input();
  Model model(input, subject.build(input), std::move(distribution), {.seed = 5});
  model.compile(
      {.loss = subject.loss, .optimizer = SGD({.learning_rate = 1.0}), .metrics = subject.metrics});
  const Samples samples = samples_for(subject);
  const auto source = source_of(samples);
  Outcome outcome;
  outcome.predicted = model.predict(source, {.batch_size = rows, .prefetch = false});
  if (!subject.metrics.empty()) {
    outcome.evaluated = model.evaluate(source, {.batch_size = rows, .prefetch = false});
  }
  outcome.trained = model.train_step(samples.batch());
  outcome.variables = variables_of(model);
  return outcome;
}

inline void compare(const Outcome& found, const Outcome& expected,
                    const std::vector<Variable>& names) {
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
inline void add_layouts(const std::vector<MeshAxis>& axes, std::size_t next, TensorLayout layout,
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

inline std::vector<TensorLayout> layouts_of(const std::vector<MeshAxis>& axes,
                                            std::size_t dimensions) {
  std::vector<TensorLayout> all;
  add_layouts(axes, 0, TensorLayout(dimensions), all);
  return all;
}

// A choice of one layout for each path, by index; 0 is the one that splits nothing, and is left to
// the planner.
inline std::vector<std::vector<std::size_t>> combinations(const std::vector<std::size_t>& counts,
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

inline std::vector<TestedMesh> meshes(int ranks, std::size_t scale) {
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
inline void check(const std::vector<Case>& cases, std::size_t scale) {
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
        const auto input = subject.input();
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

inline SharedLayer front(std::int64_t units, const std::string& name = "front") {
  return Dense(
      {.name = name, .units = units, .bias_initializer = initializer_by_name("random_uniform")});
}

// The layer behind `front` and before nothing or a tail.
inline std::vector<Case> with_and_without_tail(const std::string& name, const Shape& sample,
                                               const Build& build,
                                               std::vector<std::string> spread) {
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

inline void append(std::vector<Case>& cases, std::vector<Case> more) {
  std::move(more.begin(), more.end(), std::back_inserter(cases));
}

// The gradients of a step on one rank against differences of the loss. The step is small, so that
// few values of relu pass its kink on the way: float32 loses 2e-7 / 1e-3 of a loss near 1, and a
// kink that is passed counts for one of some fifty values.
inline void check_differences(const std::vector<Case>& cases) {
  constexpr float step = 5e-4f;
  for (const Case& subject : cases) {
    INFO(subject.name);
    DeviceMesh self = alone();
    const Outcome outcome = run(subject, spread_over(self));
    const Samples samples = samples_for(subject);
    const auto input = subject.input();
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

}  // namespace meshwork::test

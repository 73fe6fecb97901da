// Every rule against the truth (runtime/train/layer_check.h), as test cases use it.
//
// A case is a layer behind a dense layer "front", whose gradients show that of the layer's input,
// and before a dense layer "tail" or directly before the loss.
#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/joined_text.h"
#include "layers/dense.h"
#include "layers/initializers/random_uniform.h"
#include "runtime/train/layer_check.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "tests/support/one_rank.h"

namespace meshwork::test {

inline constexpr double tolerance = spread_tolerance;
inline constexpr std::int64_t rows = checked_rows;

using Build = std::function<SymbolicTensor(const SymbolicTensor&)>;

/// A LayerCase of one input.
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

  [[nodiscard]] LayerCase layer_case() const {
    return {
        .name = name,
        .inputs = {{sample, dtype, features}},
        .build = [build = build](const std::vector<SymbolicTensor>& x) { return build(x.front()); },
        .spread = spread,
        .loss = loss,
        .metrics = metrics,
        .targets = targets};
  }
};

inline LayerOutcome run(const Case& subject, Distribution distribution) {
  return outcome_of(subject.layer_case(), std::move(distribution));
}

inline void compare(const LayerOutcome& found, const LayerOutcome& expected,
                    const std::vector<Variable>& variables) {
  CHECK(differences(found, expected, variables) == "");
}

struct TestedMesh {
  std::vector<MeshAxis> axes;
  std::size_t limit;  // layouts of a case
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

inline void check(const LayerReport& report) {
  INFO(joined_text(report.causes, "\n"));
  for (const std::string& failure : report.failures) {
    FAIL_CHECK(failure);
  }
}

// Runs all cases on all meshes. `scale` says how many layouts of a case: fewer where more ranks share
// the cores of the machine.
inline void check(const std::vector<Case>& cases, std::size_t scale) {
  const Communicator world = Communicator::world();
  for (const TestedMesh& tested : meshes(world.size(), scale)) {
    DeviceMesh mesh(tested.axes);
    unsigned number = 0;
    for (const Case& subject : cases) {
      const LayerReport report = check_layouts(subject.layer_case(), mesh, tested.limit, ++number);
      check(report);
      CHECK(report.layouts > 0);
    }
  }
}

// ---- cases ----------------------------------------------------------------------------------

inline SharedLayer front(std::int64_t units, const std::string& name = "front") {
  return Dense({.name = name, .units = units, .bias_initializer = RandomUniform()});
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

// The gradients of a step on one rank against differences of the loss.
inline void check_differences(const std::vector<Case>& cases) {
  LayerReport all;
  for (const Case& subject : cases) {
    all.add(check_gradients(subject.layer_case()));
  }
  check(all);
  CHECK(all.slopes > 0);
}

}  // namespace meshwork::test

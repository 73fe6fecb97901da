// Every rule against the truth, and every gradient against differences.
//
// `check_strategies` runs an operation whole and then spread in every way that its rule allows, on
// meshes of one axis (2 and 3 ranks) and of two (2 x 3): each letter over each axis, two letters
// over one axis each, and one letter over both axes in either order. It compares the assembled
// output, gradients and new values of variables with those of the whole run. It also asks for each
// gradient alone, which must be the same. Shapes should be small and odd; a length below 6 gives
// empty blocks somewhere, which is meant.
//
// `check_gradients` compares the gradients with central differences of forward.
//
// Both work for any operation, losses included: the output of a sum over everything is a scalar.
#pragma once

#include <fmt/format.h>

#include <set>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/reference_lowering.h"

namespace meshwork::test {

namespace detail {

/// The letters that an axis may split: those of dimensions that are longer than 1 and not whole.
inline std::string splittable_letters(const Operation& operation, const OperationCase& what) {
  std::vector<Shape> shapes;
  for (const Tensor& input : what.inputs) {
    shapes.push_back(input.shape);
  }
  const Rule rule = operation.rule(shapes);
  std::set<char> letters;
  const auto look = [&](const std::string& of, const Shape& shape) {
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] > 1 && rule.whole.find(of[d]) == std::string::npos) letters.insert(of[d]);
    }
  };
  for (std::size_t i = 0; i < shapes.size(); ++i) look(rule.inputs[i], shapes[i]);
  look(rule.output, operation.output_shape(shapes));
  return {letters.begin(), letters.end()};
}

inline std::string describe(const Split& split, const MeshShape& mesh) {
  std::string text;
  for (const auto& [letter, axes] : split) {
    text += fmt::format("{}{} over", text.empty() ? "" : ", ", letter);
    for (const Axis axis : axes) {
      text += fmt::format(" {}({})", mesh.name(axis), mesh.size(axis));
    }
  }
  return text;
}

inline std::vector<Split> splits_of(const std::string& letters, const MeshShape& mesh) {
  std::vector<Split> splits;
  for (const char first : letters) {
    for (Axis axis = 0; axis < mesh.axis_count(); ++axis) {
      splits.push_back({{first, {axis}}});
    }
    if (mesh.axis_count() == 2) {
      for (const char second : letters) {
        if (first != second) {
          splits.push_back({{first, {0}}, {second, {1}}});
        }
      }
      splits.push_back({{first, {0, 1}}});
      splits.push_back({{first, {1, 0}}});
    }
  }
  return splits;
}

inline void compare(const OperationResult& found, const OperationResult& expected,
                    double tolerance) {
  CHECK(difference(found.output, expected.output, tolerance) == "");
  for (std::size_t i = 0; i < expected.gradients.size(); ++i) {
    if (found.gradients[i] && expected.gradients[i]) {
      INFO("gradient of input " << i);
      CHECK(difference(*found.gradients[i], *expected.gradients[i], tolerance) == "");
    }
  }
  for (std::size_t i = 0; i < expected.updates.size(); ++i) {
    INFO("update of input " << i);
    REQUIRE(found.updates[i].has_value() == expected.updates[i].has_value());
    if (expected.updates[i]) {
      CHECK(difference(*found.updates[i], *expected.updates[i], tolerance) == "");
    }
  }
}

}  // namespace detail

/// See above. `tolerance` is relative to the largest magnitude of a tensor (or 1): sums in another
/// order round differently, by less than 1e-5 for the few dozen terms of a test; 0 asks for the
/// same bits.
inline void check_strategies(const Operation& operation, const OperationCase& what,
                             double tolerance = 1e-5) {
  INFO("operation " << operation.kind());
  const OperationResult whole = run_whole(operation, what);
  const std::string letters = detail::splittable_letters(operation, what);
  CHECK_FALSE(letters.empty());
  for (const MeshShape& mesh : {MeshShape({{"two", 2}}, 2), MeshShape({{"three", 3}}, 3),
                                MeshShape({{"two", 2}, {"three", 3}}, 6)}) {
    for (const Split& split : detail::splits_of(letters, mesh)) {
      INFO("split: " << detail::describe(split, mesh));
      detail::compare(run_split(operation, what, mesh, split), whole, tolerance);
    }
  }
  if (what.output_gradient && what.inputs.size() > 1) {
    for (std::size_t input = 0; input < what.inputs.size(); ++input) {
      if (whole.gradients[input]) {
        INFO("only the gradient of input " << input << " is wanted");
        OperationCase alone = what;
        alone.wanted.assign(what.inputs.size(), false);
        alone.wanted[input] = true;
        // A GPU's library may sum a bias in the product beside it.
        const bool alike = make_device({})->traits().computes_in_host_memory;
        detail::compare(run_whole(operation, alone), whole, alike ? 0 : tolerance);
      }
    }
  }
}

/// Compares the gradients of sum(output * output_gradient) (of the output itself if it is a scalar)
/// with (f(x + step) - f(x - step)) / (2 step). float32 rounds each output to about 6e-8 of its
/// size, the difference loses that / step, and the third derivative adds about step^2 / 6 of its
/// size: with 1e-2 both stay near 1e-5. Inputs must not lie within a step of a kink.
inline void check_gradients(const Operation& operation, const OperationCase& what,
                            double tolerance = 2e-3, double step = 1e-2) {
  INFO("operation " << operation.kind());
  const OperationResult whole = run_whole(operation, what);
  OperationCase forward = what;
  forward.output_gradient.reset();
  const MeshShape mesh({{"all", 1}}, 1);
  const std::unique_ptr<Device> device = make_device({});
  Meeting meeting(1);
  ReferenceLowering lowering(operation, forward, mesh, {}, 0, *device, meeting);
  const auto weighted_sum = [&] {
    lowering.run();
    const std::vector<double> output = lowering.output_values();
    double sum = 0;
    for (std::size_t i = 0; i < output.size(); ++i) {
      sum += output[i] * (whole.output.shape.empty() ? 1 : what.output_gradient->values[i]);
    }
    return sum;
  };
  for (std::size_t input = 0; input < what.inputs.size(); ++input) {
    if (!whole.gradients[input]) {
      continue;
    }
    INFO("gradient of input " << input);
    Tensor expected(what.inputs[input].shape);
    for (std::size_t i = 0; i < expected.values.size(); ++i) {
      Tensor moved = what.inputs[input];
      const float above = static_cast<float>(moved.values[i] + step);
      const float below = static_cast<float>(moved.values[i] - step);
      moved.values[i] = above;
      lowering.set_input(static_cast<int>(input), moved);
      const double high = weighted_sum();
      moved.values[i] = below;
      lowering.set_input(static_cast<int>(input), moved);
      const double low = weighted_sum();
      expected.values[i] = (high - low) / (static_cast<double>(above) - static_cast<double>(below));
    }
    lowering.set_input(static_cast<int>(input), what.inputs[input]);
    CHECK(difference(*whole.gradients[input], expected, tolerance) == "");
  }
}

}  // namespace meshwork::test

// Models on one rank and on many: what tests share that compare the two.
//
// Every rank trains the same model alone, on a mesh of itself, and with all others on the mesh
// under test; the numbers of the first are the truth.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collectives/joined_text.h"
#include "runtime/data/array.h"
#include "runtime/train/model.h"
#include "tests/support/catch.h"
#include "tests/support/tensor.h"

namespace meshwork::test {

using LayoutEntries = std::vector<std::pair<std::string, TensorLayout>>;

inline std::string to_string(const LayoutEntries& entries) {
  std::string text;
  for (const auto& [key, layout] : entries) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", key, meshwork::to_string(layout));
  }
  return text.empty() ? "no layouts" : text;
}

inline Distribution spread_over(DeviceMesh& mesh, const LayoutEntries& entries = {},
                                std::optional<std::string> batch_axis = std::nullopt) {
  LayoutMap layouts(mesh);
  for (const auto& [key, layout] : entries) {
    layouts.insert(key, layout);
  }
  return ModelParallel(mesh, std::move(layouts), {.batch_axis = std::move(batch_axis)});
}

/// A mesh of this rank alone.
inline DeviceMesh alone() {
  return DeviceMesh({{"alone", 1}}, Communicator::self());
}

inline std::vector<float> floats_of(const Tensor& tensor) {
  return {tensor.values.begin(), tensor.values.end()};
}

/// Random features between -1 and 1, the same for the same seed.
inline std::vector<float> random_floats(std::int64_t count, unsigned seed, double low = -1,
                                        double high = 1) {
  return floats_of(random_tensor({count}, seed, low, high));
}

/// Every variable, whole, in the order of the graph.
inline std::vector<std::vector<float>> variables_of(Model& model) {
  std::vector<std::vector<float>> all;
  for (const Variable& variable : model.graph().variables) {
    all.push_back(model.variable(variable.path));
  }
  return all;
}

/// "" or which element differs by more than `tolerance`, relative to the larger of 1 and the
/// largest expected magnitude.
inline std::string difference(std::span<const float> found, std::span<const float> expected,
                              double tolerance) {
  const auto tensor = [](std::span<const float> values) {
    return Tensor({static_cast<std::int64_t>(values.size())}, {values.begin(), values.end()});
  };
  return difference(tensor(found), tensor(expected), tolerance);
}

/// The same for logs, by name.
inline std::string difference(const Logs& found, const Logs& expected, double tolerance) {
  if (found.names() != expected.names()) {
    return fmt::format("names {} instead of {}", joined_text(found.names(), ", "),
                       joined_text(expected.names(), ", "));
  }
  for (const auto& [name, value] : expected) {
    if (!(std::abs(found.at(name) - value) <= tolerance * std::max(1.0, std::abs(value)))) {
      return fmt::format("{} is {}, expected {}", name, found.at(name), value);
    }
  }
  return "";
}

}  // namespace meshwork::test

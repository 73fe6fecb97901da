// What layers say about themselves and their inputs in the same words.
#pragma once

#include <span>
#include <string>

#include "collectives/error.h"
#include "runtime/graph/graph.h"

namespace meshwork {

/// The only input. Throws `Error` if there are several.
[[nodiscard]] inline TensorId one_input(std::span<const TensorId> inputs) {
  if (inputs.size() != 1) {
    fail("expected one input, found {}", inputs.size());
  }
  return inputs.front();
}

/// How messages call a layer whose options are wrong: by its name, else by its class.
[[nodiscard]] inline std::string called(const std::string& name, const std::string& class_name) {
  return name.empty() ? class_name : name;
}

}  // namespace meshwork

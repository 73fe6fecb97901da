// The cases (layer_check.h) of a layer about which only its shapes are known.
//
//     const auto cases = cases_of({.make = [] { return Swish(); }, .samples = {{5, 7}}});
//     const LayerReport report = check_on_ranks(cases, Communicator::world());
//
// Before each input of the layer stands a product with a bias, "front", whose gradients show those of
// the input. An input of classes or other whole numbers is fed instead. The layer is the prediction,
// or it stands before one more such product, "tail". Layouts are varied of what comes out of "front",
// of the layer's variables and of its output.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/train/layer_check.h"

namespace meshwork {

struct CheckedLayer {
  std::function<SharedLayer()> make;  // a new layer at each call
  std::vector<Shape> samples;         // the shape of a sample of each input
  std::string device = "auto";        // as ModelOptions has it
};

/// The shapes of the inputs' samples: "[5, 7] and [3]".
[[nodiscard]] std::string in_words(const std::vector<Shape>& samples);

/// Throws `Error` if the layer takes neither numbers nor whole numbers of these shapes: what it says
/// of numbers.
[[nodiscard]] std::vector<LayerCase> cases_of(const CheckedLayer& layer);

}  // namespace meshwork

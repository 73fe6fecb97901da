// ModelSummary: the layers of a model with their outputs, parameters and layouts, as Keras's
// `model.summary()` shows them.
//
//     layer (class)       output  parameters  layout
//     flatten (Flatten)      784           0
//     d1 (Dense)             200      157000  kernel [~, model]
//
// Blocks are not listed, but the layers in them are, each once. A layout is one that splits
// something: a variable, or an output otherwise than by the batch axis.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/shape/shape.h"
#include "runtime/train/blueprint.h"

namespace meshwork {

struct LayerSummary {
  std::string path;
  std::string class_name;
  Shape output;  // of a sample
  std::int64_t parameters = 0;
  std::string layouts;  // "kernel [~, model], output [data, model]"
};

struct ModelSummary {
  std::vector<LayerSummary> layers;
  std::int64_t parameters = 0;
  std::int64_t fixed_parameters = 0;  // of these: not trained
};

/// Layouts are those of the plan, if there is one, else those that the user gave.
[[nodiscard]] ModelSummary summary_of(const Blueprint& blueprint);

/// A table on `width` columns (0: as wide as it is) and a line with the sums. Of more than
/// `most_layers` layers the first and the last, and a line that says how many are left out and ends
/// with `how_to_see_all`; 0: all.
[[nodiscard]] std::string to_text(const ModelSummary& summary, std::size_t width = 0,
                                  std::size_t most_layers = 0,
                                  const std::string& how_to_see_all = "");

}  // namespace meshwork

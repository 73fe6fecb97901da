// Where the variables of a model stand in a Keras weights file.
//
// Keras 3 goes by classes and order, not by names (keras/src/saving/saving_lib.py,
// keras/src/layers/layer.py). The variables of a layer are `<place of the layer>/vars/0`, `1`, ...,
// those that are trained first. A layer's place follows from what holds it:
//
//     a functional model, Sequential   layers/<class>, layers/<class>_1, ... : the class in snake
//                                      case, counted in the order of the holder's layers
//     a block, a layer made of layers  <name>: that of the member
//     a model written as a class       <name> where it comes before "layers" in the alphabet, for
//                                      Keras walks through the members in this order and meets its
//                                      own list of them there; the others stand in that list, as
//                                      in a functional model
//
// The layers of a functional model are in order of their depth, the number of layers from them to
// an output at most, and of equal depth in the order in which a walk back from the outputs meets
// them (keras/src/ops/function.py, map_graph). A chain is as it is written.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/checkpoint/contents.h"
#include "runtime/checkpoint/keras_weights.h"
#include "runtime/graph/graph.h"
#include "runtime/graph/parameters.h"
#include "runtime/train/optimizers/optimizer.h"

namespace meshwork {

/// How Keras has the model that a graph is of.
enum class KerasModel : std::uint8_t {
  functional,  // or Sequential
  subclass,    // a model written as a class
  members      // likewise, every layer by its name, as inside a block
};

/// What stands at a place: a variable of the graph, or a slot of it, by their numbers.
struct KerasEntry {
  std::string place;
  int variable;
  int slot = its_value;
};

/// The places of all variables of `graph`, in Keras's order of them.
[[nodiscard]] std::vector<KerasPlace> keras_places(const Graph& graph, KerasModel model);

[[nodiscard]] std::vector<KerasEntry> keras_weight_entries(const Graph& graph,
                                                           const std::vector<KerasPlace>& places);

/// `optimizer` of the model of `graph`, whose variables are at `places`, as Keras's files have it
/// after `iteration` updates.
[[nodiscard]] KerasOptimizer keras_optimizer(const Graph& graph, const Optimizer& optimizer,
                                             const std::vector<KerasPlace>& places,
                                             std::int64_t iteration);
/// Its slots.
[[nodiscard]] std::vector<KerasEntry> keras_slot_entries(const Graph& graph,
                                                         const KerasOptimizer& optimizer);

}  // namespace meshwork

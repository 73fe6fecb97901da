// Reading the options of layers from a configuration.
//
//     SharedLayer scale_from_config(const ConfigNode& node, const LayerRegistry&) {
//       ScaleOptions options;
//       ConfigReader reader = layer_reader(node, options.name);
//       reader.required("factor", options.factor);
//       reader.finish();
//       return Scale(options);
//     }
//
// The functions `from_config` make Activation, Initializer and Regularizer readable by
// `ConfigReader::optional` and `ConfigNode::as`:
//
//     activation: relu                                   # ~ is linear
//     kernel_initializer: he_normal
//     kernel_initializer: {VarianceScaling: {scale: 2.0, mode: fan_in, distribution: uniform}}
//     kernel_regularizer: {L2: 0.01}                     # L1, {L1L2: {l1: 0.001, l2: 0.01}}
//
// Names and defaults are Keras's.
#pragma once

#include <string>

#include "runtime/config/reader.h"
#include "runtime/device/kernels.h"
#include "runtime/graph/graph.h"
#include "runtime/graph/initializer.h"

namespace meshwork {

/// A reader of a layer's options that has read `name`. The key `inputs`, which says what the layer
/// is called on and belongs to the model's description, is left to it.
[[nodiscard]] ConfigReader layer_reader(const ConfigNode& options, std::string& name);

void from_config(const ConfigNode& node, Activation& activation);
/// A name (`he_normal`, `HeNormal`), or a class with its options.
void from_config(const ConfigNode& node, Initializer& initializer);
/// Null is none.
void from_config(const ConfigNode& node, Regularizer& regularizer);

}  // namespace meshwork

// WrittenOutputs: what a configuration says of what a model's outputs are trained by.
//
//     loss: mse                       # of the only output, or of each
//     metrics: [mae]
//
// Of several outputs (model_config.h in runtime/graph) each is written by its name:
//
//     loss: {price: mse, kind: {SparseCategoricalCrossentropy: {from_logits: true}}, code: ~}
//     loss_weights: {kind: 0.5}       # in the sum that training makes small; default 1
//     metrics: {kind: [accuracy]}     # in the logs: kind_accuracy
//
// ~ for a loss: the output is compared with nothing, and needs no targets.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/config/catalog.h"
#include "runtime/config/node.h"
#include "runtime/train/blueprint.h"
#include "runtime/train/model_options.h"

namespace meshwork {

struct WrittenOutput {
  std::string name;  // "" of the only one
  OutputTraining training;
  std::optional<ConfigNode> loss;  // where it is written
  std::vector<ConfigNode> metrics = {};
};

/// What `sections` say of the model's outputs called `names`, in their order, or of its only one,
/// which may have no name here. Throws `ConfigError` with all that is wrong: unknown losses and
/// metrics, names that are no outputs, an output of which no loss is given.
[[nodiscard]] std::vector<WrittenOutput> read_outputs(const ConfigurationSections& sections,
                                                      const std::vector<std::string>& names,
                                                      const Catalog& catalog);

}  // namespace meshwork

// RunSummary: what a run is, in a few lines, which `train` prints before the first step and `meshwork
// summary` without one: the model, how it is spread, on what it runs, and what it is fed.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/train/reporting/model_summary.h"
#include "runtime/train/run_config.h"

namespace meshwork {

struct RunSummary {
  ModelSummary model;
  std::vector<std::pair<std::string, std::string>> facts;  // "mesh", "data=2, model=2; ..."
  std::string checkpoints;                                 // where they go, or that there are none
};

/// Samples of each part of the data; nothing is said of those that are null.
struct SummaryData {
  std::shared_ptr<const Source> training, validation, test;
};

/// Of the run that `file` describes, on `mesh`. `machine` says on what it runs, where that is known.
[[nodiscard]] RunSummary summary_of(const RunConfig& config, const std::string& file,
                                    const MeshShape& mesh, ModelSummary model,
                                    const SummaryData& data, const std::string& machine);

/// On `width` columns; with a table of at most `most_layers` layers, or of all (0).
[[nodiscard]] std::string to_text(const RunSummary& summary, std::size_t width,
                                  std::size_t most_layers);

}  // namespace meshwork

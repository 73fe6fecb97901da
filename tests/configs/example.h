// Examples of configs/ as tests train them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "layers/pages.h"
#include "runtime/config/load.h"
#include "runtime/pages.h"
#include "runtime/train/run_config.h"
#include "tests/support/one_rank.h"

namespace meshwork::test {

/// configs/`name`.yaml with `overrides`; nothing is printed.
inline RunConfig example(const std::string& name, std::vector<ConfigOverride> overrides) {
  Catalog catalog;
  add_runtime(catalog);
  add_layers(catalog);
  overrides.push_back({"fit.verbose=silent"});
  return {load_config(MESHWORK_SOURCE_DIR "/configs/" + name + ".yaml", overrides), catalog};
}

struct ExampleRun {
  History history;
  std::vector<std::vector<float>> variables;
};

inline ExampleRun run_example(const RunConfig& config, DeviceMesh& mesh) {
  const TrainingData data = config.open_training();
  config.check_data(*data.training, DataPart::train, mesh.shape(), Mode::train);
  config.check_samples(data.training, DataPart::train, Mode::train, mesh.all());
  Model model = config.make_model(mesh);
  FitOptions options = config.fit_options();
  options.validation = data.validation;
  ExampleRun run{model.fit(data.training, std::move(options)), {}};
  run.variables = variables_of(model);
  return run;
}

/// Whether every value of every epoch is what it was, to `tolerance` of it.
inline void check_history(const History& found, const History& expected, double tolerance) {
  for (const auto& [name, values] : expected.history) {
    for (std::size_t epoch = 0; epoch < values.size(); ++epoch) {
      INFO(name << " of epoch " << epoch);
      CHECK(found.at(name)[epoch] == Approx(values[epoch]).epsilon(tolerance));
    }
  }
}

}  // namespace meshwork::test

// Examples of configs/ as tests train them.
#pragma once

#include <optional>
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

/// The run of one rank that those of all ranks are held against. Rank 0 alone has it, and checks: on
/// a few cores the ranks would take turns.
struct OneRank {
  std::optional<ExampleRun> run;

  OneRank(const RunConfig& config, const std::vector<std::string>& axes) {
    if (Communicator::world().rank() != 0) return;
    std::vector<MeshAxis> alone;
    for (const std::string& axis : axes) alone.push_back({axis, 1});
    DeviceMesh mesh(alone, Communicator::self());
    run = run_example(config, mesh);
  }

  /// Trains over `mesh`. History of every epoch and final weights are the same, to `tolerance`.
  void check(const RunConfig& config, DeviceMesh& mesh, double tolerance) const {
    INFO(meshwork::to_string(mesh.shape()));
    const ExampleRun found = run_example(config, mesh);
    if (!run) return;
    for (const auto& [name, values] : run->history.history) {
      for (std::size_t epoch = 0; epoch < values.size(); ++epoch) {
        INFO(name << " of epoch " << epoch);
        CHECK(found.history.at(name)[epoch] == Approx(values[epoch]).epsilon(tolerance));
      }
    }
    REQUIRE(found.variables.size() == run->variables.size());
    for (std::size_t v = 0; v < found.variables.size(); ++v) {
      INFO("variable " << v);
      CHECK(difference(found.variables[v], run->variables[v], tolerance) == "");
    }
  }
};

}  // namespace meshwork::test

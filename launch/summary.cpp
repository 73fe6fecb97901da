// meshwork summary: what a run is, without running it.
#include <unistd.h>

#include <cstdio>

#include "collectives/exchange.h"
#include "collectives/printable.h"
#include "launch/commands.h"
#include "launch/run_summary.h"
#include "launch/session.h"
#include "runtime/train/reporting/terminal.h"

namespace meshwork {

std::string summary_text(const CommandLine& line, const Communicator* all) {
  const RunConfig config = all == nullptr ? read_run(line) : read_same_run(*all, line);
  std::string text;
  const auto make = [&] {
    const MeshShape mesh = mesh_to_show(config, line, all == nullptr ? 1 : all->size());
    std::optional<Blueprint> blueprint;
    ConfigErrors errors;
    std::vector<std::string> missing;
    SummaryData data;
    errors.check([&] { blueprint.emplace(config.blueprint(mesh)); });
    if (config.has(DataPart::train)) {
      const TrainingData training = config.open_training(errors, {.missing = &missing});
      data.training = training.training;
      data.validation = training.validation;
    }
    if (config.has(DataPart::test)) {
      errors.check([&] { data.test = config.open(DataPart::test, {.missing = &missing}); });
    }
    errors.raise();
    if (all == nullptr || all->rank() == 0) {
      print_warnings(blueprint->warnings);
      print_warnings(missing);
    }
    text = to_text(summary_of(config, line.config, mesh, summary_of(*blueprint), data, ""),
                   text_width(STDOUT_FILENO), 0);
  };
  all == nullptr ? make() : together(*all, make);
  return text;
}

}  // namespace meshwork

#include "runtime/checkpoint/options.h"

#include "runtime/config/catalog.h"

namespace meshwork {

template <class Visitor>
void describe(CheckpointOptions& options, Visitor& option) {
  option.required("directory", options.directory, "where checkpoints are; made if it is not there");
  option("every_epochs", options.every_epochs, positive, "epochs between checkpoints");
  option("every_steps", options.every_steps, positive, "updates between checkpoints");
  option("every_minutes", options.every_minutes, finite_positive, "minutes between checkpoints");
  option("keep", options.keep, positive, "how many of the newest stay");
  option("best", options.best, "the log of which the checkpoint of the best epoch stays, too");
  option.choice("resume", options.resume,
                {{"auto", Resume::automatic}, {"strict", Resume::strict}, {"never", Resume::never}},
                "go on from the newest whole one, from the newest one, or begin anew");
  option.choice("mode", options.mode,
                {{"sync", CheckpointMode::synchronous}, {"async", CheckpointMode::asynchronous}},
                "whether training waits while one is written");
  option.choice("writer", options.writer,
                {{"parallel", CheckpointWriter::parallel}, {"plain", CheckpointWriter::plain}},
                "all ranks, or rank 0");
  option("verify", options.verify, "read everything back before the file gets its name");
  option.choice(
      "on_error", options.on_error,
      {{"stop", CheckpointFailure::stop}, {"continue", CheckpointFailure::continue_anyway}},
      "what happens when one cannot be written");
}

void from_config(const ConfigNode& node, CheckpointOptions& options) {
  options = read_options<CheckpointOptions>(node, Catalog());
  if (options.directory.empty()) {
    node.find("directory")->fail("the name of the directory is empty");
  }
}

void check_options(const CheckpointOptions& options) {
  check_options<CheckpointOptions>("checkpoint", options);
}

std::vector<OptionText> checkpoint_option_texts() {
  return option_texts<CheckpointOptions>();
}

Settings settings_of(const CheckpointOptions& options) {
  Settings settings = settings_of<CheckpointOptions>(options);
  for (auto& [name, value] : settings) name = "checkpoint." + name;
  return settings;
}

}  // namespace meshwork

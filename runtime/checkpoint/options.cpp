#include "runtime/checkpoint/options.h"

#include <limits>

#include "runtime/config/reader.h"

namespace meshwork {

void from_config(const ConfigNode& node, CheckpointOptions& options) {
  ConfigReader reader(node);
  const ConfigNode directory = reader.required_node("directory", "a file name");
  options.directory = directory.as_path();
  if (options.directory.empty()) {
    directory.fail("the name of the directory is empty");
  }
  reader.optional("every_epochs", options.every_epochs, positive);
  reader.optional("every_steps", options.every_steps, positive);
  reader.optional("every_minutes", options.every_minutes,
                  above(0).below(std::numeric_limits<double>::infinity()));
  reader.optional("keep", options.keep, positive);
  reader.optional("best", options.best);
  reader.choice(
      "resume", options.resume,
      {{"auto", Resume::automatic}, {"strict", Resume::strict}, {"never", Resume::never}});
  reader.choice("mode", options.mode,
                {{"sync", CheckpointMode::synchronous}, {"async", CheckpointMode::asynchronous}});
  reader.choice("writer", options.writer,
                {{"parallel", CheckpointWriter::parallel}, {"plain", CheckpointWriter::plain}});
  reader.optional("verify", options.verify);
  reader.choice(
      "on_error", options.on_error,
      {{"stop", CheckpointFailure::stop}, {"continue", CheckpointFailure::continue_anyway}});
  reader.finish();
}

}  // namespace meshwork

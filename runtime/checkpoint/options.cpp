#include "runtime/checkpoint/options.h"

#include <algorithm>

#include "runtime/config/reader.h"

namespace meshwork {
namespace {

const ChoiceTable<Resume>& resumes() {
  static const ChoiceTable<Resume> table{
      {"auto", Resume::automatic}, {"strict", Resume::strict}, {"never", Resume::never}};
  return table;
}
const ChoiceTable<CheckpointMode>& modes() {
  static const ChoiceTable<CheckpointMode> table{{"sync", CheckpointMode::synchronous},
                                                 {"async", CheckpointMode::asynchronous}};
  return table;
}
const ChoiceTable<CheckpointWriter>& writers() {
  static const ChoiceTable<CheckpointWriter> table{{"parallel", CheckpointWriter::parallel},
                                                   {"plain", CheckpointWriter::plain}};
  return table;
}
const ChoiceTable<CheckpointFailure>& failures() {
  static const ChoiceTable<CheckpointFailure> table{
      {"stop", CheckpointFailure::stop}, {"continue", CheckpointFailure::continue_anyway}};
  return table;
}

template <class Value>
std::string name_in(const ChoiceTable<Value>& table, Value value) {
  return std::find_if(table.begin(), table.end(),
                      [&](const auto& entry) { return entry.second == value; })
      ->first;
}

}  // namespace

void from_config(const ConfigNode& node, CheckpointOptions& options) {
  ConfigReader reader(node);
  const ConfigNode directory = reader.required_node("directory", "a file name");
  options.directory = directory.as_path();
  if (options.directory.empty()) {
    directory.fail("the name of the directory is empty");
  }
  reader.optional("every_epochs", options.every_epochs, positive);
  reader.optional("every_steps", options.every_steps, positive);
  reader.optional("every_minutes", options.every_minutes, finite_positive);
  reader.optional("keep", options.keep, positive);
  reader.optional("best", options.best);
  reader.choice("resume", options.resume, resumes());
  reader.choice("mode", options.mode, modes());
  reader.choice("writer", options.writer, writers());
  reader.optional("verify", options.verify);
  reader.choice("on_error", options.on_error, failures());
  reader.finish();
}

Settings settings_of(const CheckpointOptions& options) {
  return {setting("checkpoint.directory", options.directory.string()),
          setting("checkpoint.every_epochs", options.every_epochs.value_or(0)),
          setting("checkpoint.every_steps", options.every_steps.value_or(0)),
          setting("checkpoint.every_minutes", options.every_minutes.value_or(0)),
          setting("checkpoint.keep", options.keep),
          setting("checkpoint.best", options.best),
          setting("checkpoint.resume", name_in(resumes(), options.resume)),
          setting("checkpoint.mode", name_in(modes(), options.mode)),
          setting("checkpoint.writer", name_in(writers(), options.writer)),
          setting("checkpoint.verify", options.verify),
          setting("checkpoint.on_error", name_in(failures(), options.on_error))};
}

}  // namespace meshwork

#include "runtime/train/callbacks/model_checkpoint.h"

#include <utility>

#include "collectives/error.h"
#include "collectives/path_text.h"
#include "runtime/train/from_config.h"

namespace meshwork {
namespace {

class ModelCheckpointCallback final : public Callback {
 public:
  explicit ModelCheckpointCallback(ModelCheckpointOptions options) : options_(std::move(options)) {}

  std::string class_name() const override { return "ModelCheckpoint"; }
  bool decides_alike() const override { return true; }
  bool waits_for_validation() const override { return false; }
  std::optional<CheckpointOptions> checkpoints() const override {
    CheckpointOptions checkpoints{.directory = options_.filepath,
                                  .every_steps = options_.save_freq.updates};
    if (options_.save_best_only) {
      checkpoints.best = options_.monitor;
      checkpoints.keep = 1;
    }
    return checkpoints;
  }

 private:
  ModelCheckpointOptions options_;
};

}  // namespace

void from_config(const ConfigNode& node, SaveFrequency& frequency) {
  const bool epoch = node.is_scalar() && node.tree().text == "epoch";
  frequency.updates = epoch ? std::nullopt : std::optional(node.as<std::int64_t>(positive));
}

std::string to_text(const SaveFrequency& frequency) {
  return frequency.updates ? fmt::format("{}", *frequency.updates) : "epoch";
}

template <class Visitor>
void describe(ModelCheckpointOptions& options, Visitor& option) {
  option.about("saves the state of a run, as the section checkpoint does");
  option.required("filepath", options.filepath, "directory of the checkpoints; created if missing");
  option("monitor", options.monitor, "log that determines the best state");
  option("save_best_only", options.save_best_only,
         "keep the best state and the newest; else the three newest");
  option("save_freq", options.save_freq, "updates between checkpoints");
}

SharedCallback ModelCheckpoint(const ModelCheckpointOptions& options) {
  const std::string ending = options.filepath.extension().string();
  if (options.filepath.string().find('{') != std::string::npos || ending == ".keras" ||
      ending == ".h5" || ending == ".hdf5") {
    fail(
        "filepath is {}, but checkpoints are files step-N.h5 in one directory; name the directory "
        "(`meshwork export` converts a checkpoint to Keras's file)",
        options.filepath);
  }
  return std::make_shared<ModelCheckpointCallback>(options);
}

std::optional<CheckpointOptions> checkpoints_of(std::span<const SharedCallback> callbacks) {
  std::optional<CheckpointOptions> found;
  for (const SharedCallback& callback : callbacks) {
    std::optional<CheckpointOptions> asked = callback ? callback->checkpoints() : std::nullopt;
    if (!asked) continue;
    if (found)
      fail("two callbacks save checkpoints, in {} and {}", found->directory, asked->directory);
    found = std::move(asked);
  }
  return found;
}

void add_model_checkpoint(Catalog& catalog) {
  catalog.add<SharedCallback, ModelCheckpointOptions>("ModelCheckpoint", {}, ModelCheckpoint);
}

}  // namespace meshwork

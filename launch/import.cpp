// meshwork import: Keras's weights as a checkpoint of a configuration's model.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/path_text.h"
#include "collectives/printable.h"
#include "launch/commands.h"
#include "launch/run_files.h"
#include "launch/session.h"
#include "runtime/checkpoint/directory.h"
#include "runtime/checkpoint/directory_lock.h"
#include "runtime/checkpoint/keras_weights.h"
#include "runtime/checkpoint/output_place.h"

namespace meshwork {
namespace {

// What `file` has to be, said by the root.
void check_source(const std::string& file) {
  if (std::filesystem::is_directory(file)) {
    fail("{}: is a directory; a file of Keras's weights is expected", file);
  }
  if (is_checkpoint_file(file)) {
    fail(
        "{}: is a Meshwork checkpoint already; train, evaluate and predict read it directly, "
        "with --weights {}",
        file, file);
  }
  (void)KerasWeightsReader(file);
}

// Where the checkpoint goes: into a directory under the name of a checkpoint after `updates`. No
// run may use the directory meanwhile.
std::string destination(const CommandLine& line, const RunConfig& config, std::int64_t updates,
                        std::optional<DirectoryLock>& lock) {
  const std::string& output = line.output;
  if (has_keras_name(output)) {
    fail(
        "--output: {}: is a name of Keras's files; a checkpoint is written, NAME.h5 or a directory",
        output);
  }
  if (output.ends_with(".h5")) {
    RunFiles files = inputs_of(line, config);
    files.read(line.files.front(), "the file of the weights");
    files.write(output, "a checkpoint", is_checkpoint_of_ours);
    const std::filesystem::path folder = std::filesystem::path(output).parent_path();
    if (step_in_name(std::filesystem::path(output).filename().string())) {
      lock.emplace(folder.empty() ? "." : folder, std::chrono::seconds(0));
    }
    return output;
  }
  check_directory(output);
  prepare_directory(output);
  lock.emplace(output, std::chrono::seconds(0));
  const CheckpointListing listing = list_checkpoints(output, "");
  if (!listing.checkpoints.empty()) {
    fail("--output: {} has checkpoints of a run, up to step {}; give another directory", output,
         listing.checkpoints.front().step);
  }
  const std::filesystem::path file = std::filesystem::path(output) / checkpoint_name(updates);
  if (const std::string obstacle = obstacle_to_writing(file, Writing::beside); !obstacle.empty()) {
    fail("--output: {} cannot be written: {}", file, obstacle);
  }
  return file.string();
}

}  // namespace

int import_weights(Runtime& runtime, const CommandLine& line) {
  (void)runtime.stop_request();  // from here on, signals are answered in order
  const std::string& file = line.files.front();
  std::optional<Session> session;
  LoadedWeights loaded;
  std::string output;
  std::optional<DirectoryLock> lock;  // on the root
  const int status = runtime.attempt(2, [&] {
    session.emplace(runtime, line);
    together(runtime.world(), [&] {
      if (runtime.is_root()) {
        check_source(file);
      }
    });
    session->build();
    end_if_asked(runtime, "before anything was read");
    const bool optimizer = session->config().has_loss() && !line.weights_only;
    loaded = session->model().load_weights(file, {.optimizer = optimizer});
    together(runtime.world(), [&] {
      if (runtime.is_root()) {
        output = destination(line, session->config(), loaded.optimizer ? loaded.updates : 0, lock);
      }
    });
    output = broadcast_text(runtime.world(), output);
    end_if_asked(runtime, "before anything was written");
  });
  if (status != 0) {
    return status;
  }
  return runtime.attempt(1, [&] {
    const CheckpointOptions checkpoint = session->config().fit_options().checkpoint;
    session->model().save_weights(output, {.configuration = to_yaml(session->config().document()),
                                           .writer = checkpoint.writer,
                                           .verify = checkpoint.verify});
    if (runtime.is_root()) {
      std::printf(
          "%s: %zu variables of %s, %s\n", in_one_line(output).c_str(),
          session->model().graph().variables.size(), in_one_line(file).c_str(),
          loaded.optimizer
              ? fmt::format("with the optimizer's state after {} updates", loaded.updates).c_str()
              : "without an optimizer's state");
      std::fflush(stdout);
    }
    end_if_asked(runtime, "after all was written");
  });
}

}  // namespace meshwork

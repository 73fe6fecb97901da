// TensorBoard: event files that TensorBoard shows, with the tags of Keras's callback
// (keras/src/callbacks/tensorboard.py).
//
//     log_dir/train         epoch_loss, epoch_METRIC, epoch_learning_rate, epoch_samples_per_second;
//                           with update_freq, batch_loss, batch_METRIC: the epoch's means so far;
//                           with histogram_freq, PATH/histogram of every variable
//     log_dir/validation    epoch_loss, epoch_METRIC; evaluation_loss_vs_iterations and so on
//
// Steps are epochs from 0; of tags that begin with batch_ or evaluation_, updates. The gradient
// norm (CompileOptions::gradient_norm) is a log like others: epoch_gradient_norm.
//
// The root writes, and flushes after every record. It locks the directory while it does
// (OutputLock): another run does not write between the records. Files of an earlier run of ours in
// the directory are replaced, but by a run that goes on from a checkpoint: that cuts off what is
// trained again (event_files.h). Histograms are counted by all ranks, each what it holds; plans
// show the two reductions.
#pragma once

#include <cstdint>
#include <filesystem>

#include "runtime/config/node.h"
#include "runtime/train/callbacks/callback.h"

namespace meshwork {

/// How often the means of an epoch so far are written: after so many updates; 0: never.
struct UpdateFrequency {
  static constexpr const char* expected = "epoch, batch, or a positive integer";
  std::int64_t updates = 0;
};
void from_config(const ConfigNode& node, UpdateFrequency& frequency);
[[nodiscard]] std::string to_text(const UpdateFrequency& frequency);

struct TensorBoardOptions {
  std::filesystem::path log_dir;
  UpdateFrequency update_freq;
  std::int64_t histogram_freq = 0;  // epochs between histograms of the weights; 0: none
};

/// Throws `Error` without a directory, and in a program that was built without the protobuf
/// library. Errors of writing come from the events, and name the file.
[[nodiscard]] SharedCallback TensorBoard(const TensorBoardOptions& options);

}  // namespace meshwork

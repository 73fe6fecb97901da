// Weights in files, apart from runs: what `save_weights` and `load_weights` of a model take.
//
// Two formats. A name that ends with `.weights.h5` is one of Keras 3's files, which Keras loads
// into the same model, and which may be what Keras wrote (checkpoint/keras_weights.h). Any other
// `.h5` is a checkpoint (checkpoint/format.h), of which only the weights and, where asked for, the
// optimizer's state are looked at. Which of the two a file is that is loaded, its content says, not
// its name.
//
// Every rank reads its own blocks, whatever mesh or program wrote the file. Names, shapes and
// numbers of arrays have to be those of the model: all that differs is said at once, before
// anything is changed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "runtime/checkpoint/options.h"

namespace meshwork {

struct SaveWeightsOptions {
  /// Also the optimizer's slots, rate and number of updates, if the model is compiled; Keras's
  /// files have them only if there have been updates.
  bool optimizer = true;
  /// Text that a checkpoint carries: the configuration that the model is of.
  std::string configuration;
  /// How a checkpoint is written, as in CheckpointOptions.
  CheckpointWriter writer = CheckpointWriter::parallel;
  bool verify = false;
};

struct LoadWeightsOptions {
  /// Take up the optimizer's state, too, if the file has one: slots, number of updates, and a rate
  /// that no schedule rules. It has to be the same optimizer. One of Keras's that has updated
  /// nothing has slots of zeros, which its files need not have.
  bool optimizer = false;
};

/// What was loaded.
struct LoadedWeights {
  std::filesystem::path file;   // in a directory the newest checkpoint
  bool keras = false;           // else a checkpoint
  bool optimizer = false;       // whether its state was taken up
  std::int64_t updates = 0;     // that the file's weights have had; 0 if it does not say
  std::int64_t variables = 0;   // that were set: all of the model
  bool has_optimizer = false;   // whether the file has an optimizer's state
  std::string optimizer_class;  // of that state; Keras's files do not say it
};

/// What was taken up and what was left in the file, in a line: "12 variables of
/// run/step-000000300.h5; not its optimizer's state (Adam, 300 steps)".
[[nodiscard]] std::string describe(const LoadedWeights& loaded);

/// The file that `path` stands for: itself or, for a directory of checkpoints, the newest of them.
/// Throws `Error` if a directory has none, or if its newest cannot be read. Not collective.
[[nodiscard]] std::filesystem::path weights_file(const std::filesystem::path& path);

}  // namespace meshwork

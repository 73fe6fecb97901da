// The files of a run: what it reads, and what it may write.
//
// A file that the run reads is never written over, whatever name it goes by: files are compared by
// where they are, through symbolic and hard links. Another file that exists is replaced by one of
// its own kind (a log by a log), and by another only where that was asked for. An empty file is of
// every kind.
//
//     RunFiles files(line.overwrite);
//     files.read(line.config, "the configuration");
//     files.write(log, "the log", is_log);   // throws if it would destroy something
//
// Nothing is opened for writing here, and nothing is left behind.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/checkpoint/output_place.h"

namespace meshwork {

/// Whether an existing file may be replaced as one of the same kind.
using IsSameKind = std::function<bool(const std::filesystem::path& file)>;

/// Of predictions (predictions.h), Keras's weights and checkpoints. A file that cannot be read is of
/// no kind.
[[nodiscard]] bool is_predictions(const std::filesystem::path& file);
[[nodiscard]] bool is_keras_weights(const std::filesystem::path& file);
[[nodiscard]] bool is_checkpoint_of_ours(const std::filesystem::path& file);

class RunFiles {
 public:
  explicit RunFiles(bool overwrite) : overwrite_(overwrite) {}

  /// The run reads `file`, which is `what` to it: "the configuration". One that is not there, or an
  /// empty name, is none.
  void read(const std::filesystem::path& file, const std::string& what);
  /// The run keeps its checkpoints in `directory`. Nothing else is written under a name of theirs
  /// there, or over one that is there, by whatever name.
  void keep_checkpoints(const std::filesystem::path& directory);
  /// The run will write `what` to `file`, by way of `name_while_writing(file)`. Throws `Error` if
  /// the run reads either or writes something else to it, if it exists and is neither of the same
  /// kind nor may be overwritten, or if no file can be written there (output_place.h).
  void write(const std::filesystem::path& file, const std::string& what,
             const IsSameKind& is_same_kind, Writing how = Writing::beside);
  /// The run will fill `folder` with `what`. Throws `Error` if something else fills it.
  void fill(const std::filesystem::path& folder, const std::string& what);

 private:
  struct Known {
    std::string place;  // the same for the same file
    std::string what;
  };
  std::vector<Known> read_, written_, filled_;
  std::filesystem::path directory_;  // of checkpoints; empty for none
  std::string checkpoints_;          // its place
  bool overwrite_;
};

}  // namespace meshwork

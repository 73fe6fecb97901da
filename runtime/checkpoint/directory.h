// A directory of checkpoints: what they are called, which there are, which stay.
//
// A checkpoint is `step-000001200.h5`, after the updates of the parameters so far, so that a
// listing is in order; but what counts is the step in the file. One that was being
// written when a run was cut off has a longer name (new_file.h), and is never read; the next run
// removes it, if it has the directory to itself (directory_lock.h). There is no pointer to the newest
// one, which could be stale.
//
// Only one rank looks (rank 0), since listings of network file systems can differ from node to
// node; the others are told the names. Nothing here is collective.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace meshwork {

/// "step-000001200.h5".
[[nodiscard]] std::string checkpoint_name(std::int64_t step);
/// The step in a name that `checkpoint_name` could have given; none for other names.
[[nodiscard]] std::optional<std::int64_t> step_in_name(const std::string& name);

/// A file that is called as a checkpoint is.
struct FoundCheckpoint {
  std::filesystem::path file;
  std::int64_t step = 0;  // in the file; in the name where the file cannot be read
  std::int64_t epoch = 0;
  std::string damage;  // what is wrong with it; "" for nothing, as far as its table goes
  std::optional<double> monitored;  // the log that was asked for, at the epoch's end
  std::string refusal;              // why the system does not give it, whole or not; "" if it does

  [[nodiscard]] bool readable() const { return damage.empty() && refusal.empty(); }
};

struct CheckpointListing {
  std::vector<FoundCheckpoint> checkpoints;       // the newest first
  std::vector<std::filesystem::path> unfinished;  // temporary ones
};

/// What is in `directory`, which need not be there. `monitor` names a log; "" for none. Throws
/// `Error` if the directory cannot be read, and for a file of a newer format.
[[nodiscard]] CheckpointListing list_checkpoints(const std::filesystem::path& directory,
                                                 const std::string& monitor);

/// Checks that `directory` is one in which files can be made, or can be made itself, as far as that
/// can be seen without making anything. Throws `Error` that says what is in the way.
void check_directory(const std::filesystem::path& directory);

/// The newest file in `directory` that is called as a checkpoint is, whole or not. Throws as
/// `list_checkpoints`.
[[nodiscard]] std::optional<FoundCheckpoint> newest_in(const std::filesystem::path& directory);

/// Throws `WrongInput` if `directory` has checkpoints, beside which a run is not to begin anew.
void check_unused(const std::filesystem::path& directory);

/// Makes `directory`, with those that it is in, and checks that files can be made in it. Throws
/// `Error`, and `FailedWrite` if the system makes none now.
void prepare_directory(const std::filesystem::path& directory);

/// Which of `checkpoints` (any order) go when the newest `keep` and the one whose monitored value
/// is best stay. Of equal values the older one is best. Those that cannot be read are not counted
/// and stay, for somebody to look at.
[[nodiscard]] std::vector<FoundCheckpoint> superfluous(
    const std::vector<FoundCheckpoint>& checkpoints, std::int64_t keep, bool lower_is_better);

}  // namespace meshwork

// Going on from a checkpoint: which one, whether it fits, and what of it is taken up.
//
// Rank 0 alone looks into the directory and tells the others. The newest checkpoint that proves
// whole is taken; newer ones that are not are named, with the steps that this costs, or are an
// error (Resume::strict). What the system refuses to give is asked for again for some seconds,
// since it may be whole; if it stays away it is passed over like a damaged one, and said to be what
// it is: a run at night goes on. That none of several can be read is an error always: a run never
// begins anew beside checkpoints. A directory under a checkpoint's name is none. Every rank reads
// its own blocks, whatever mesh wrote them, and the ranks compare the sums of what they have read
// with those in the file before anything is believed.
//
// Names and shapes of variables, and the optimizer with its slots, must be the same; all that
// differs is said at once. A callback takes up what one of its class remembered that was about the
// same (Callback::subject). What else differs (the mesh, paths, epochs, the configuration) is said,
// and the run goes on. Only inside an epoch data, batches, seed and metrics must be the same too,
// or the rest of the epoch would not be the rest.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint/contents.h"
#include "runtime/checkpoint/directory.h"
#include "runtime/checkpoint/options.h"
#include "runtime/train/callbacks/callback.h"
#include "runtime/train/model_state.h"

namespace meshwork {

/// Prints a line for the user, from rank 0.
using Say = std::function<void(const std::string& line)>;

/// What a directory has, as rank 0 sees it.
struct ResumeChoice {
  std::vector<FoundCheckpoint> checkpoints;   // the newest first; only on rank 0
  std::optional<std::filesystem::path> file;  // that was read; none: the run begins anew
  std::optional<CheckpointState> state;       // what it holds
};

/// Chooses and reads, as `options` say: afterwards the model's variables and slots are those of the
/// checkpoint, and `callbacks` have loaded what they had saved and kept. `now` is the state that
/// the run would begin with. `alone`, on rank 0: nobody else uses the directory, so that what other
/// runs have not finished can be removed. Collective; throws the same `Error` on all ranks.
[[nodiscard]] ResumeChoice resume_from(Model::State& model, const CheckpointOptions& options,
                                       const CheckpointState& now,
                                       const std::vector<SharedCallback>& callbacks, bool alone,
                                       const Say& say);

/// A configuration's text, and what messages call it: "step-000000004.h5: configuration".
struct NamedConfiguration {
  std::string text;
  std::string name;
};

/// Where two configurations differ, a line each: "fit.epochs: 10, was 5". Throws `ConfigError` for
/// a text that is none.
[[nodiscard]] std::vector<std::string> configuration_differences(const NamedConfiguration& now,
                                                                 const NamedConfiguration& before);

}  // namespace meshwork

// KernelChooser: the choice among candidates (kernel_candidates.h), one for all ranks.
//
// While a step is made, before its kernels are compiled, the ranks tell each other for which
// specifications each of them wants a kernel, and which candidates it has: blocks may be uneven, so
// that shapes are those of some ranks only. What has been chosen before stays. The rest is timed,
// one specification after the other, by every rank that has it, all at once, since in a step they
// work at once too; the word of the lowest of these ranks holds on all. A candidate that one of
// them does not have is none. So ranks that compute the same value use the same kernel.
//
// With that word the ranks agree on whether anybody has been asked to stop: all of them leave
// before the same specification, also where only one of them got the signal.
//
// What was chosen is a `KernelRecord`. A checkpoint carries it, and a run that goes on takes it up
// before it makes its steps, and so stays equal to the run that was not interrupted bit for bit
// (steps that are made later, such as those of an evaluation, are timed then). A *file* carries it
// from run to run (kernels_file.h): what it has for the platform of this run is used, and what was
// chosen otherwise is added to it. A record of another platform is not used. Where a checkpoint and
// the file differ, the checkpoint holds.
//
// All of this is between steps, and small: of every rank a hash, of each distinct list of
// specifications its text, and two numbers for each specification that is timed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/trace.h"
#include "runtime/device/device.h"
#include "runtime/device/kernel_record.h"
#include "runtime/train/loop/stop_request.h"

namespace meshwork {

/// What `ModelOptions::kernels` says. A name of a file has a "." or a "/".
struct KernelsOption {
  bool timed = false;
  std::filesystem::path file;  // empty: none
};
/// Throws `Error` for what is neither "fixed", "timed" nor the name of a file.
[[nodiscard]] KernelsOption kernels_option(const std::string& text);

class KernelChooser {
 public:
  /// Collective over `ranks`, as all below; `ranks` and `device` outlive this, and so does `trace`,
  /// in which the waiting for others is recorded. Reads `file`, if there is one, on rank 0. `say`
  /// prints a line there. Throws the same `Error` on all ranks for a file that is none of records,
  /// cannot be read, or could not be written later.
  KernelChooser(const Communicator& ranks, Device& device, CollectiveTrace* trace,
                std::filesystem::path file, std::function<void(const std::string&)> say);

  /// Chooses for each of `specs`, this rank's own, that has candidates. Throws the same `Error` on
  /// all ranks if one of them could not time, or rank 0 could not write the file; and `Stopped` if
  /// the request of any of them is asked meanwhile. What was chosen by then is kept.
  void choose(const std::vector<KernelSpec>& specs, const StopRequest* stop_request = nullptr);
  /// Takes up what an earlier run had chosen, in place of what was chosen here, if it is of this
  /// platform. Equal on all ranks. Adds what the file lacks of it, and throws as `choose` does
  /// where that cannot be written. Whether a choice is another now, so that what was compiled has
  /// to be compiled again.
  bool take_up(const KernelRecord& earlier);

  [[nodiscard]] const KernelRecord& record() const { return record_; }

 private:
  struct Wanted {
    std::string key;
    std::vector<std::string> names;  // of candidates that all have who want it
    int decider;                     // the lowest rank that wants it
  };
  struct Own {
    KernelSpec spec;
    std::vector<KernelCandidate> candidates;
  };
  struct Word {
    std::int64_t place = 0;   // of the name that holds, in `Wanted::names`
    std::int64_t reason = 0;  // for which a rank was asked to stop; 0: none was
  };
  void read_file();
  /// Adds what the file lacks, and what was chosen anew for `changed` in place of what it has. On
  /// rank 0; the others wait.
  void write_file(const std::vector<std::string>& changed);
  [[nodiscard]] std::vector<Wanted> wanted(const std::map<std::string, Own>& own) const;
  /// The common word on `one`, which the ranks that have it time for it, unless a rank stops.
  [[nodiscard]] Word word_on(const Wanted& one, const std::map<std::string, Own>& own,
                             const StopRequest* stop_request) const;
  void say(const std::string& line) const;  // on rank 0
  [[nodiscard]] std::size_t fastest(const Own& own, const std::vector<std::string>& names) const;

  const Communicator* ranks_;
  Device* device_;
  CollectiveTrace* trace_;
  std::filesystem::path file_;
  std::function<void(const std::string&)> say_;
  KernelRecord record_;
  std::map<std::string, std::string> in_file_;  // what it has for this platform; on rank 0
  bool told_ = false;                           // that kernels are timed
};

}  // namespace meshwork

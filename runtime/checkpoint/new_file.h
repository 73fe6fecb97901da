// NewFile: a file that is written beside its name, and gets the name when it is whole.
//
// Until then OUTPUT is called OUTPUT.meshwork-unfinished, a name that nobody else gives. A regular
// file of that name is what a killed run has left, and is replaced. Anything else stays, and is in
// the way.
//
// One run at a time writes an output: it holds an *output lock*, on .OUTPUT.meshwork-lock, or on
// FOLDER/.meshwork-lock where the output is a folder (owner_lock.h), and removes that file at its
// end. Checkpoints of a run need none, as the run has the lock of their directory. Where the file
// system has no locks, the last run to begin replaces the unfinished file; the other one finds that
// at its end, and does not give the name.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "runtime/checkpoint/file_identity.h"
#include "runtime/checkpoint/owner_lock.h"

namespace meshwork {

/// What is added to a file's name until the file is whole.
inline constexpr std::string_view unfinished = ".meshwork-unfinished";

/// What the file `name` is called while it is written, before it is whole.
[[nodiscard]] std::filesystem::path name_while_writing(const std::filesystem::path& name);

/// Removes `file`, which is called as an unfinished one is, if it is a regular file. Whether it has;
/// if not, errno says why the system did not let it, and is 0 for a file that is something else.
bool remove_unfinished(const std::filesystem::path& file);

/// An empty file of this process's own, called `name` as an unfinished one is. It stays open, so that
/// no other file is taken for it.
class MadeFile {
 public:
  /// What a killed run has left under that name is removed; else who has the name keeps it. Throws
  /// `Error`, and `FailedWrite` if the system makes none now.
  explicit MadeFile(std::filesystem::path name);
  ~MadeFile();
  MadeFile(const MadeFile&) = delete;
  MadeFile& operator=(const MadeFile&) = delete;

  /// Throws `FailedWrite`, also if another file has the name by now.
  void rename_to(const std::filesystem::path& name) const;
  /// Removes it, unless another file has the name by now.
  void remove() const noexcept;

 private:
  std::filesystem::path name_;
  int opened_;
  FileIdentity own_;
};

/// One run at a time writes the output `name`, a file that need not be there, or a folder that is.
class OutputLock {
 public:
  /// Throws `FailedWrite` that names the process if another run is writing it, and as `OwnerLock`.
  explicit OutputLock(const std::filesystem::path& name);

 private:
  OwnerLock lock_;
};

/// A file of this process's own that is not yet called `name`; removed if it never is. What somebody
/// else has put there meanwhile keeps the name, and then this file stays, too.
class NewFile {
 public:
  /// Makes it, as `MadeFile` does, under its output lock.
  explicit NewFile(std::filesystem::path name);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// What it is called until it has its name.
  [[nodiscard]] const std::string& temporary() const { return temporary_; }
  /// Throws `FailedWrite`.
  void give_name();

 private:
  std::filesystem::path name_;
  std::string temporary_;
  OutputLock lock_;
  MadeFile made_;
  FileIdentity before_;  // that this file may replace
  bool stays_ = false;
};

}  // namespace meshwork

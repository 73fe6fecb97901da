// WrittenFile: an HDF5 file that is being written, and that can be closed whatever the disk does.
//
// The library (1.10) writes once more in closing a file that was open for writing: the superblock,
// also where it stands there already. If this write fails, ranks that share the file wait for each
// other for ever, and a process that has it alone crashes when it ends. So nothing may be left for
// it to do: what was written is flushed while failures can still be answered, and then the file is
// *detached* from its name. Every descriptor that this process has of it, the library's and MPI's,
// is made to stand for a piece of memory, into which closing then writes, and cannot fail.
//
// For that the flushed file must be the same as the closed one. It is in formats without marks of
// being open, that is up to 1.8's (format.h).
#pragma once

#include <sys/types.h>

#include <string>

#include "runtime/data/hdf5_handles.h"

namespace meshwork {

class WrittenFile {
 public:
  WrittenFile() = default;
  /// Takes `file`, just opened for writing under `name`.
  WrittenFile(Hdf5File file, std::string name);
  /// Closes without a word. Collective where ranks share the file.
  ~WrittenFile();
  WrittenFile(WrittenFile&&) noexcept = default;
  WrittenFile& operator=(WrittenFile&& other) noexcept;

  [[nodiscard]] bool exists() const { return file_.exists(); }
  [[nodiscard]] hid_t native() const { return file_.native(); }

  /// Hands all that was written to the system. Throws `Error`. Collective where ranks share the
  /// file.
  void flush();
  /// Closes; what was not flushed is lost. Throws `Error`. Collective where ranks share the file.
  void close();

 private:
  void detach() const noexcept;

  Hdf5File file_;
  std::string name_;
  dev_t device_ = 0;  // with inode_: the file, whatever becomes of its name
  ino_t inode_ = 0;
};

}  // namespace meshwork

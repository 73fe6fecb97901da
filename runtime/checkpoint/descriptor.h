// Descriptor: an open file or directory of the system's, for what HDF5 and MPI do not do: taking
// room, and bringing to the disk what was written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace meshwork {

/// What the file `name` is called while it is written, before it is whole: "NAME.tmp".
[[nodiscard]] std::filesystem::path name_while_writing(const std::filesystem::path& name);

/// Makes an empty file called `name`, of this process's own: what has the name, such as what a
/// killed run has left, is removed, and no link is followed. Throws `Error`.
void make_new_file(const std::filesystem::path& name);

class Descriptor {
 public:
  /// Opens `name`, with the `flags` of open(2). Throws `Error`.
  Descriptor(const std::filesystem::path& name, int flags);
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  /// Takes space for a file of `bytes`; throws `Error` if there is not so much. Where the file
  /// system cannot do that, a full disk is found when it is written to.
  void reserve(std::int64_t bytes) const;
  [[nodiscard]] std::int64_t bytes() const;

  /// Has the system begin to write to the disk what was written of `count` bytes from `begin` on,
  /// by whomever on this machine, so that the disk works while more is written. Without effect
  /// where the system cannot.
  void begin_bringing_to_disk(std::int64_t begin, std::int64_t count) const noexcept;
  /// Waits until everything that was written is on the disk. Throws `Error`.
  void bring_to_disk() const;

 private:
  std::string name_;
  int native_;
};

}  // namespace meshwork

// Descriptor: an open file or directory of the system's, for what HDF5 and MPI do not do: taking
// room, and bringing to the disk what was written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace meshwork {

/// Throws an `Error`: the file, what cannot be done, and the system's words for `errno`.
[[noreturn]] void fail_with_errno(const std::filesystem::path& file, const char* what);

/// The first `bytes` of a file, or all of a shorter one; none of one that cannot be read.
[[nodiscard]] std::string begin_of(const std::filesystem::path& file, std::size_t bytes = 64);

/// How files of a kind begin.
inline constexpr std::string_view begins_hdf5 = "\x89HDF\r\n\x1a\n";

class Descriptor {
 public:
  /// Opens `name`, which is there, with the `flags` of open(2). Throws `Error`.
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
  std::filesystem::path name_;
  int native_;
};

}  // namespace meshwork

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
[[noreturn]] void fail_with_errno(const std::string& file, const char* what);

/// What the file `name` is called while it is written, before it is whole: "NAME.tmp".
[[nodiscard]] std::filesystem::path name_while_writing(const std::filesystem::path& name);

/// The first `bytes` of a file, or all of a shorter one; none of one that cannot be read.
[[nodiscard]] std::string begin_of(const std::filesystem::path& file, std::size_t bytes = 64);

/// How files of a kind begin.
inline constexpr std::string_view begins_hdf5 = "\x89HDF\r\n\x1a\n";

/// Removes `file` if it is what a killed run has left of one that begins with `beginning`: a regular
/// file that begins so, that is empty, or that begins with zeros. Whether it has; if not, errno says
/// why the system did not let it, and is 0 for a file that is something else.
bool remove_unfinished(const std::filesystem::path& file, std::string_view beginning = begins_hdf5);

/// Makes an empty file called `name`, of this process's own. What a killed run has left there is
/// removed, and a link, which is not followed; else who has the name keeps it. Throws `Error`, and
/// `FailedWrite` if the system makes none now.
void make_new_file(const std::filesystem::path& name, std::string_view beginning = begins_hdf5);

/// A file of this process's own that is not yet called `name`; removed if it never is.
class NewFile {
 public:
  /// Makes it, as `make_new_file` does.
  explicit NewFile(std::filesystem::path name, std::string_view beginning = begins_hdf5);
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
  bool named_ = false;
};

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
  std::string name_;
  int native_;
};

}  // namespace meshwork

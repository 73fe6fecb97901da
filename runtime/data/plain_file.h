// Opens files that others made, and reads them by position or maps them into memory.
//
// A name can lead to anything: a pipe that nobody writes to, a directory, a device without an end.
// Only a regular file is opened, without waiting for anybody, and looked at once it is open, so
// that what is checked is what is read. Errors tell three cases apart: a file that is wrong
// (`Error`), one that this process may not look into (`Unreachable`), and a disk or a network that
// does not answer (`SystemFailure`).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "collectives/error.h"

namespace meshwork {

/// The operating system refused what was asked of it, and the message has its words: a disk that
/// does not give back what is on it, a network that is gone, no room. It says nothing of what is in
/// the file, and may pass.
class SystemFailure : public Error {
 public:
  using Error::Error;
};

/// A file is there, but this process cannot look into it: it may not, or has too many open. That
/// says nothing of the file, and does not pass.
class Unreachable : public Error {
 public:
  using Error::Error;
};

/// Throws `Unreachable` or `SystemFailure` "NAME: WHAT: the system's words", by the system's number
/// `error`.
[[noreturn]] void fail_to_reach(const std::string& name, const std::string& what, int error);

/// A regular file, open for reading.
class PlainFile {
 public:
  /// `expected` names what should be there: "a checkpoint". Throws what is said above.
  PlainFile(const std::filesystem::path& path, const std::string& expected);
  PlainFile(PlainFile&& other) noexcept
      : name_(std::move(other.name_)),
        descriptor_(std::exchange(other.descriptor_, -1)),
        bytes_(other.bytes_) {}
  PlainFile& operator=(PlainFile&&) = delete;
  ~PlainFile();

  [[nodiscard]] const std::string& name() const { return name_; }
  /// When it was opened.
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  [[nodiscard]] int native() const { return descriptor_; }
  /// Hands the descriptor on, to be closed by another.
  [[nodiscard]] int release() { return std::exchange(descriptor_, -1); }

  /// How many bytes of the file are more than the zeros of a hole, as far as the file system tells.
  [[nodiscard]] std::int64_t bytes_outside_holes() const;
  /// Throws if the file is shorter than it was.
  void check_length() const;
  /// Reads `bytes` bytes that stand `offset` behind the beginning. Throws if the file ends before.
  void read(std::int64_t offset, void* destination, std::int64_t bytes) const;

 private:
  std::string name_;
  int descriptor_ = -1;
  std::int64_t bytes_ = 0;
};

/// A regular file, the whole of it mapped into memory: a rank reads from the disk just the pages
/// that it looks at, the ranks of a node share them, and a file may be larger than memory. A file
/// is not to be changed while it is mapped: `check_length` finds one that has become shorter, but
/// one that is cut in the moment in which it is read ends the process (SIGBUS).
class MappedFile {
 public:
  /// As PlainFile does; throws `Unreachable` or `SystemFailure` for one that cannot be mapped.
  MappedFile(const std::filesystem::path& path, const std::string& expected);
  MappedFile(MappedFile&& other) noexcept
      : file_(std::move(other.file_)), data_(std::exchange(other.data_, nullptr)) {}
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  [[nodiscard]] const PlainFile& file() const { return file_; }
  /// Of an empty file, null.
  [[nodiscard]] const std::byte* data() const { return data_; }

 private:
  PlainFile file_;
  const std::byte* data_ = nullptr;
};

}  // namespace meshwork

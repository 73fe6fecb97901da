// FileIdentity: which file it is, by whatever name or descriptor.
#pragma once

#include <sys/stat.h>

#include <filesystem>

namespace meshwork {

/// The same for one file under all its names, and for none. It is that file's as long as it is open.
struct FileIdentity {
  dev_t device = 0;
  ino_t number = 0;
  bool operator==(const FileIdentity&) const = default;

  FileIdentity() = default;
  explicit FileIdentity(const struct stat& status) : device(status.st_dev), number(status.st_ino) {}
};

/// Of the file called `name`; a symbolic link is a file of its own.
[[nodiscard]] inline FileIdentity identity_of(const std::filesystem::path& name) noexcept {
  struct stat status {};
  return ::lstat(name.c_str(), &status) == 0 ? FileIdentity(status) : FileIdentity();
}
/// Of the file that `name` leads to.
[[nodiscard]] inline FileIdentity identity_behind(const std::filesystem::path& name) noexcept {
  struct stat status {};
  return ::stat(name.c_str(), &status) == 0 ? FileIdentity(status) : FileIdentity();
}
/// Of an open file.
[[nodiscard]] inline FileIdentity identity_of(int descriptor) noexcept {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 ? FileIdentity(status) : FileIdentity();
}

}  // namespace meshwork

#include "runtime/checkpoint/descriptor.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "collectives/error.h"
#include "collectives/path_text.h"

namespace meshwork {
[[noreturn]] void fail_with_errno(const std::filesystem::path& file, const char* what) {
  fail("{}: {}: {}", file, what, std::strerror(errno));
}

std::string begin_of(const std::filesystem::path& file, std::size_t bytes) {
  std::string begin(bytes, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(stream.gcount()));
  return begin;
}

Descriptor::Descriptor(const std::filesystem::path& name, int flags)
    : name_(name), native_(::open(name.c_str(), flags | O_CLOEXEC, 0666)) {
  if (native_ < 0) {
    fail_with_errno(name_, "cannot be opened");
  }
}

Descriptor::~Descriptor() {
  ::close(native_);
}

void Descriptor::reserve(std::int64_t bytes) const {
  int result = 0;
  do {
    result = ::fallocate(native_, 0, 0, std::max<std::int64_t>(1, bytes));
  } while (result != 0 && errno == EINTR);
  if (result != 0 && errno != EOPNOTSUPP && errno != ENOSYS) {
    const std::string reason = std::strerror(errno);
    fail("{}: there is no room for {} bytes: {}", name_, bytes, reason);
  }
}

std::int64_t Descriptor::bytes() const {
  struct stat status {};
  if (::fstat(native_, &status) != 0) {
    fail_with_errno(name_, "its size cannot be read");
  }
  return status.st_size;
}

void Descriptor::begin_bringing_to_disk(std::int64_t begin, std::int64_t count) const noexcept {
  (void)::sync_file_range(native_, begin, count, SYNC_FILE_RANGE_WRITE);
}

void Descriptor::bring_to_disk() const {
  // Some file systems have nothing to bring for a directory, and say so.
  if (::fsync(native_) != 0 && errno != EINVAL) {
    fail_with_errno(name_, "cannot be brought to the disk");
  }
}

}  // namespace meshwork

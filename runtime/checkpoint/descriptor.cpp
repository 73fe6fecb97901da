#include "runtime/checkpoint/descriptor.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "collectives/error.h"

namespace meshwork {
namespace {

[[noreturn]] void fail_with_errno(const std::string& file, const char* what) {
  fail("{}: {}: {}", file, what, std::strerror(errno));
}

}  // namespace

std::filesystem::path name_while_writing(const std::filesystem::path& name) {
  return name.string() + ".tmp";
}

void make_new_file(const std::filesystem::path& name) {
  if (::unlink(name.c_str()) != 0 && errno != ENOENT) {
    fail_with_errno(name.string(), "is in the way and cannot be removed");
  }
  (void)Descriptor(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
}

Descriptor::Descriptor(const std::filesystem::path& name, int flags)
    : name_(name.string()), native_(::open(name.c_str(), flags | O_CLOEXEC, 0666)) {
  if (native_ < 0) {
    fail_with_errno(name_, (flags & O_CREAT) != 0 ? "cannot be created" : "cannot be opened");
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
    fail("{}: there is no room for its {} bytes: {}", name_, bytes, reason);
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

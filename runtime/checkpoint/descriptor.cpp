#include "runtime/checkpoint/descriptor.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include "collectives/error.h"
#include "collectives/failed_write.h"

namespace meshwork {
[[noreturn]] void fail_with_errno(const std::string& file, const char* what) {
  fail("{}: {}: {}", file, what, std::strerror(errno));
}

std::filesystem::path name_while_writing(const std::filesystem::path& name) {
  return name.string() + ".tmp";
}

std::string begin_of(const std::filesystem::path& file, std::size_t bytes) {
  std::string begin(bytes, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(stream.gcount()));
  return begin;
}

bool remove_unfinished(const std::filesystem::path& file, std::string_view beginning) {
  struct stat status {};
  if (::lstat(file.c_str(), &status) != 0) return false;
  bool ours = S_ISREG(status.st_mode);
  if (ours) {
    const int opened = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (opened < 0) return false;
    ::close(opened);
    const std::string begin = begin_of(file, beginning.size());
    ours = begin == beginning || begin.find_first_not_of('\0') == begin.npos;
  }
  errno = 0;
  return ours && ::unlink(file.c_str()) == 0;
}

void make_new_file(const std::filesystem::path& name, std::string_view beginning) {
  struct stat status {};
  if (::lstat(name.c_str(), &status) == 0) {
    const bool removed =
        S_ISLNK(status.st_mode) ? ::unlink(name.c_str()) == 0 : remove_unfinished(name, beginning);
    if (!removed && errno != 0) {
      fail_with_errno(name.string(), "is in the way and cannot be removed");
    }
    if (!removed) {
      fail("{}: is in the way, and is nothing that an earlier run has left; move it elsewhere",
           name.string());
    }
  }
  const int made = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (made < 0) {
    const int reason = errno;
    fail_to_make(reason,
                 fmt::format("{}: cannot be created: {}", name.string(), std::strerror(reason)));
  }
  ::close(made);
}

NewFile::NewFile(std::filesystem::path name, std::string_view beginning)
    : name_(std::move(name)), temporary_(name_while_writing(name_)) {
  make_new_file(temporary_, beginning);
}

NewFile::~NewFile() {
  std::error_code problem;
  if (!named_) std::filesystem::remove(temporary_, problem);
}

void NewFile::give_name() {
  std::error_code problem;
  std::filesystem::rename(temporary_, name_, problem);
  if (problem) {
    throw FailedWrite(fmt::format("{}: cannot be renamed from {}: {}", name_.string(), temporary_,
                                  problem.message()));
  }
  named_ = true;
}

Descriptor::Descriptor(const std::filesystem::path& name, int flags)
    : name_(name.string()), native_(::open(name.c_str(), flags | O_CLOEXEC, 0666)) {
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

#include "runtime/data/plain_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "collectives/printable.h"

namespace meshwork {

// Rights and limits stay as they are, everything else may pass.
void fail_to_reach(const std::string& name, const std::string& what, int error) {
  const std::string text = fmt::format("{}: {}: {}", name, what, std::strerror(error));
  for (const int lasting : {EACCES, EPERM, ELOOP, ENAMETOOLONG, EMFILE, ENFILE}) {
    if (error == lasting) {
      throw Unreachable(text);
    }
  }
  throw SystemFailure(text);
}

PlainFile::PlainFile(const std::filesystem::path& path, const std::string& expected)
    : name_(in_one_line(path.string())) {
  // Without waiting for whoever writes to a pipe.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) {
    if (errno == ENOENT || errno == ENOTDIR) throw MissingFile(name_ + ": there is no such file");
    fail_to_reach(name_, "cannot be opened", errno);
  }
  struct stat status {};
  const int problem = ::fstat(descriptor_, &status) == 0 ? 0 : errno;
  if (problem != 0 || !S_ISREG(status.st_mode)) {
    ::close(std::exchange(descriptor_, -1));
    if (problem != 0) fail_to_reach(name_, "cannot be looked at", problem);
    fail("{}: is {}; {} is expected", name_,
         S_ISDIR(status.st_mode)    ? "a directory"
         : S_ISFIFO(status.st_mode) ? "a pipe"
                                    : "no regular file",
         expected);
  }
  bytes_ = status.st_size;
}

PlainFile::~PlainFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::int64_t PlainFile::bytes_outside_holes() const {
  std::int64_t bytes = 0;
  for (off_t end = 0; end < bytes_;) {
    const off_t begin = ::lseek(descriptor_, end, SEEK_DATA);
    if (begin < 0) return errno == ENXIO ? bytes : bytes_;  // none is left, or it cannot tell
    end = ::lseek(descriptor_, begin, SEEK_HOLE);
    if (end <= begin) return bytes_;
    bytes += end - begin;
  }
  return bytes;
}

void PlainFile::check_length() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail_to_reach(name_, "cannot be looked at", errno);
  if (status.st_size < bytes_) {
    fail("{}: has changed since it was opened: it had {} bytes and has {}", name_, bytes_,
         static_cast<std::int64_t>(status.st_size));
  }
}

void PlainFile::read(std::int64_t offset, void* destination, std::int64_t bytes) const {
  constexpr std::int64_t most = std::int64_t{1} << 30;  // that the system reads at once
  for (std::int64_t done = 0; done < bytes;) {
    const ssize_t got =
        ::pread(descriptor_, static_cast<std::byte*>(destination) + done,
                static_cast<std::size_t>(std::min(bytes - done, most)), offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      fail_to_reach(name_, fmt::format("cannot be read from byte {} on", offset + done), errno);
    }
    if (got == 0) {
      fail("{}: truncated: it ends at byte {}, {} are expected", name_, offset + done,
           offset + bytes);
    }
    done += got;
  }
}

MappedFile::MappedFile(const std::filesystem::path& path, const std::string& expected)
    : file_(path, expected) {
  if (file_.bytes() == 0) return;  // which the system refuses to map
  void* const memory = ::mmap(nullptr, static_cast<std::size_t>(file_.bytes()), PROT_READ,
                              MAP_SHARED, file_.native(), 0);
  if (memory == MAP_FAILED) fail_to_reach(file_.name(), "cannot be mapped into memory", errno);
  data_ = static_cast<const std::byte*>(memory);
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  ::munmap(const_cast<std::byte*>(data_), static_cast<std::size_t>(file_.bytes()));
}

}  // namespace meshwork

#include "runtime/checkpoint/new_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "collectives/failed_write.h"
#include "collectives/path_text.h"
#include "runtime/checkpoint/descriptor.h"

namespace meshwork {
namespace {

std::filesystem::path lock_of(const std::filesystem::path& name) {
  return name.parent_path() / ("." + name.filename().string() + ".meshwork-lock");
}

}  // namespace

std::filesystem::path name_while_writing(const std::filesystem::path& name) {
  return name.string() + std::string(unfinished);
}

bool remove_unfinished(const std::filesystem::path& file) {
  struct stat status {};
  if (::lstat(file.c_str(), &status) != 0) return false;
  errno = 0;
  return S_ISREG(status.st_mode) && ::unlink(file.c_str()) == 0;
}

MadeFile::MadeFile(std::filesystem::path file) : name_(std::move(file)) {
  const std::string name = name_.string();
  struct stat status {};
  if (::lstat(name.c_str(), &status) == 0 && !remove_unfinished(name_)) {
    if (errno != 0) fail_with_errno(name, "is in the way and cannot be removed");
    fail("{}: is in the way, and is nothing that an earlier run has left; move it elsewhere", name);
  }
  opened_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (opened_ < 0) {
    const int reason = errno;
    fail_to_make(reason, fmt::format("{}: cannot be created: {}", name, std::strerror(reason)));
  }
  if (::fstat(opened_, &status) != 0) {
    ::close(opened_);
    fail_with_errno(name, "cannot be looked at");
  }
  device_ = status.st_dev;
  number_ = status.st_ino;
}

MadeFile::~MadeFile() {
  ::close(opened_);
}

bool MadeFile::has_its_name() const noexcept {
  struct stat status {};
  return ::lstat(name_.c_str(), &status) == 0 && status.st_dev == device_ &&
         status.st_ino == number_;
}

void MadeFile::rename_to(const std::filesystem::path& name) const {
  if (!has_its_name()) {
    throw FailedWrite(fmt::format(
        "{}: is not written: another run, or somebody, has taken the file {} away", name, name_));
  }
  if (::rename(name_.c_str(), name.c_str()) != 0) {
    throw FailedWrite(
        fmt::format("{}: cannot be renamed from {}: {}", name, name_, std::strerror(errno)));
  }
}

void MadeFile::remove() const noexcept {
  if (has_its_name()) ::unlink(name_.c_str());
}

OutputLock::OutputLock(const std::filesystem::path& name) try
    : lock_(lock_of(name), std::chrono::seconds(0), OwnerLock::Afterwards::remove) {
} catch (const HeldByOther& other) {
  throw FailedWrite(fmt::format("{}: is being written by another run, {}", name, other.what()));
}

NewFile::NewFile(std::filesystem::path name)
    : name_(std::move(name)),
      temporary_(name_while_writing(name_).string()),
      lock_(name_),
      made_(temporary_) {}

NewFile::~NewFile() {
  if (!named_) made_.remove();
}

void NewFile::give_name() {
  made_.rename_to(name_);
  named_ = true;
}

}  // namespace meshwork

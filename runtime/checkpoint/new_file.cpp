#include "runtime/checkpoint/new_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <utility>

#include "collectives/failed_write.h"
#include "collectives/path_text.h"
#include "runtime/checkpoint/descriptor.h"

namespace meshwork {
namespace {

// Of a folder, inside: so it is one lock by whatever name the folder goes.
std::filesystem::path lock_of(const std::filesystem::path& name) {
  constexpr const char* lock = ".meshwork-lock";
  std::error_code problem;
  return std::filesystem::is_directory(name, problem)
             ? name / lock
             : name.parent_path() / ("." + name.filename().string() + lock);
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
  struct stat status {};
  if (::lstat(name_.c_str(), &status) == 0 && !remove_unfinished(name_)) {
    if (errno != 0) fail_with_errno(name_, "is in the way and cannot be removed");
    fail("{}: is in the way, and no earlier run left it; move it elsewhere", name_);
  }
  opened_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (opened_ < 0) {
    const int reason = errno;
    fail_to_make(reason, fmt::format("{}: cannot be created: {}", name_, std::strerror(reason)));
  }
  own_ = identity_of(opened_);
}

MadeFile::~MadeFile() {
  ::close(opened_);
}

void MadeFile::rename_to(const std::filesystem::path& name) const {
  if (identity_of(name_) != own_) {
    throw FailedWrite(
        fmt::format("{}: is not written: another program has removed the file {}", name, name_));
  }
  if (::rename(name_.c_str(), name.c_str()) != 0) {
    throw FailedWrite(
        fmt::format("{}: cannot be renamed from {}: {}", name, name_, std::strerror(errno)));
  }
}

void MadeFile::remove() const noexcept {
  if (identity_of(name_) == own_) ::unlink(name_.c_str());
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
      made_(temporary_),
      before_(identity_of(name_)) {}

NewFile::~NewFile() {
  if (!stays_) made_.remove();
}

void NewFile::give_name() {
  const FileIdentity now = identity_of(name_);
  if (now != FileIdentity{} && now != before_) {
    stays_ = true;  // what took long to compute
    throw FailedWrite(
        fmt::format("{}: another program has created this file meanwhile, and it stays; the output "
                    "is in {}: move it before the next run writes {}",
                    name_, std::filesystem::path(temporary_), name_.filename()));
  }
  made_.rename_to(name_);
  stays_ = true;
}

}  // namespace meshwork

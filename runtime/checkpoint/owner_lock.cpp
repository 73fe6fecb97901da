#include "runtime/checkpoint/owner_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "collectives/failed_write.h"
#include "collectives/file_size_limit.h"
#include "collectives/path_text.h"
#include "collectives/printable.h"
#include "runtime/checkpoint/file_identity.h"

namespace meshwork {
namespace {

constexpr std::string_view begins_owner = "process ";

// "process 4711 on node3": whoever wrote it last.
std::string owner_in(int file) {
  std::array<char, 256> text{};
  const ssize_t count = ::pread(file, text.data(), text.size() - 1, 0);
  return count > 0 ? std::string(text.data(), static_cast<std::size_t>(count)) : "";
}

// Whether the file is one that runs write their names to, and not somebody else's.
bool is_lock(int file) {
  struct stat status {};
  const std::string owner = owner_in(file);
  return ::fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
         (owner.empty() || owner.starts_with(begins_owner));
}

// Why the lock `name` was not opened, after the system gave `reason`.
std::string obstacle_to_opening(const std::filesystem::path& name, int reason) {
  struct stat status {};
  switch (reason) {
    case ENOENT:
      return fmt::format("cannot be created: there is no folder {}", name.parent_path());
    case ELOOP:
      return "is a symbolic link, whose target would be written; remove it";
    case EACCES:
      if (::lstat(name.c_str(), &status) == 0 && status.st_uid != ::geteuid()) {
        return fmt::format(
            "is the lock of a run of another user (number {}); wait for that run's end, or have "
            "the file removed if it has ended",
            status.st_uid);
      }
      [[fallthrough]];
    default:
      return fmt::format("cannot be opened: {}", std::strerror(reason));
  }
}

void write_owner(int file) {
  std::array<char, 128> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) {
    std::strcpy(host.data(), "?");
  }
  const std::string text = fmt::format("{}{} on {}", begins_owner, ::getpid(), host.data());
  const FileSizeSignalBlocked blocked;
  // For messages only.
  if (::ftruncate(file, 0) == 0) {
    (void)!::pwrite(file, text.data(), text.size(), 0);
  }
}

}  // namespace

OwnerLock::OwnerLock(std::filesystem::path file, std::chrono::seconds patience,
                     Afterwards afterwards)
    : name_(std::move(file)), afterwards_(afterwards) {
  open();
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    // Of the open file, not of the process: the lock holds between the runs of one process too.
    struct flock whole {};
    whole.l_type = F_WRLCK;
    whole.l_whence = SEEK_SET;
    if (::fcntl(file_, F_OFD_SETLK, &whole) == 0) {
      if (is_still_there()) {
        held_ = true;
        write_owner(file_);
        return;
      }
      // The one before removed it, and another may have made one since.
      ::close(file_);
      open();
      continue;
    }
    if (errno == EINTR) {
      continue;
    }
    if (errno != EAGAIN && errno != EACCES) {
      return;  // no locks here
    }
    if (std::chrono::steady_clock::now() - start > patience) {
      const std::string owner = in_one_line(owner_in(file_));
      ::close(file_);
      throw HeldByOther(owner.empty() ? "a process" : owner);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

OwnerLock::~OwnerLock() {
  if (held_ && afterwards_ == Afterwards::remove) ::unlink(name_.c_str());
  ::close(file_);
}

void OwnerLock::open() {
  file_ = ::open(name_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (file_ < 0) {
    const int reason = errno;
    fail_to_make(reason, fmt::format("{}: {}", name_, obstacle_to_opening(name_, reason)));
  }
  if (!is_lock(file_)) {
    ::close(file_);
    fail("{}: is in the way, and is no lock of an earlier run; move it elsewhere", name_);
  }
}

bool OwnerLock::is_still_there() const {
  return identity_of(file_) == identity_of(name_);
}

}  // namespace meshwork

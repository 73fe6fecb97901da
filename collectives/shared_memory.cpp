#include "collectives/shared_memory.h"

#include <fcntl.h>
#include <mpi.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <optional>
#include <string>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/file_size_limit.h"
#include "collectives/hosted.h"
#include "collectives/huge_pages.h"

namespace meshwork {

namespace {

/// Where rank 0's file is, and what stands at its end, so that nobody takes another for it.
struct Offer {
  std::int64_t process = 0;
  std::int64_t descriptor = -1;
  std::uint64_t key = 0;
};

/// The name of the POSIX object for `key`.
std::string name_for(std::uint64_t key) {
  return fmt::format("/meshwork-{:016x}", key);
}

/// A file of /dev/shm that is to have its name only until all ranks have opened it. Whatever
/// happens before, the name goes with the owner: what it names would outlive the job. It is empty
/// until then, so that what kill -9 leaves takes no memory.
class NamedFile {
 public:
  explicit NamedFile(std::uint64_t key)
      : name_(name_for(key)), file_(::shm_open(name_.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600)) {
    if (file_ < 0) fail("shm_open: {}", std::strerror(errno));
  }
  ~NamedFile() { ::shm_unlink(name_.c_str()); }
  NamedFile(const NamedFile&) = delete;
  NamedFile& operator=(const NamedFile&) = delete;
  /// Which the caller closes.
  [[nodiscard]] int descriptor() const { return file_; }

 private:
  std::string name_;
  int file_;
};

struct flock lock_of(int rank, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return lock;
}

std::string system_error() {
  return std::strerror(errno);
}

}  // namespace

SharedMemory::SharedMemory(const Communicator& node, std::int64_t bytes) {
  const auto page = static_cast<std::int64_t>(::sysconf(_SC_PAGESIZE));
  bytes_ = static_cast<std::size_t>(bytes);
  mapped_bytes_ = static_cast<std::size_t>((bytes + page - 1) / page * page + page);
  try {
    create(node, true);
  } catch (const Error& anonymous) {
    close();
    try {
      create(node, false);
    } catch (const Error& named) {
      close();
      fail(
          "{} ranks cannot share {} bytes of memory, neither in a file without a name: {}; nor in "
          "/dev/shm: {}",
          node.size(), bytes_, anonymous.what(), named.what());
    }
  }
}

SharedMemory::~SharedMemory() {
  close();
}

void SharedMemory::close() noexcept {
  if (memory_ != nullptr) ::munmap(memory_, mapped_bytes_);
  if (file_ >= 0) ::close(file_);
  memory_ = nullptr;
  file_ = -1;
}

void SharedMemory::create(const Communicator& node, bool anonymous) {
  const bool first = node.rank() == 0;
  Offer offer;
  std::optional<NamedFile> named;  // rank 0's, until all have opened it
  const auto map = [&] {
    memory_ = reserve_addresses(mapped_bytes_);
    if (memory_ == nullptr) fail("mmap: {}", system_error());
    if (::mmap(memory_, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_, 0) ==
        MAP_FAILED) {
      fail("mmap: {}", system_error());
    }
  };
  const auto make = [&] {
    if (::getrandom(&offer.key, sizeof offer.key, 0) != sizeof offer.key) {
      fail("getrandom: {}", system_error());
    }
    file_ =
        anonymous ? ::memfd_create("meshwork", MFD_CLOEXEC) : named.emplace(offer.key).descriptor();
    if (file_ < 0) fail("memfd_create: {}", system_error());
  };
  const auto fill = [&] {
    const FileSizeSignalBlocked blocked;
    if (anonymous) {
      if (::ftruncate(file_, static_cast<off_t>(mapped_bytes_)) != 0) {
        fail("ftruncate: {}", system_error());
      }
    } else {
      // /dev/shm may be small: an error now rather than a SIGBUS later.
      const int result = ::posix_fallocate(file_, 0, static_cast<off_t>(mapped_bytes_));
      if (result != 0) fail("posix_fallocate in /dev/shm: {}", std::strerror(result));
    }
    map();
    std::memcpy(memory_ + mapped_bytes_ - sizeof offer.key, &offer.key, sizeof offer.key);
  };
  const auto open = [&] {
    const std::string name = anonymous
                                 ? fmt::format("/proc/{}/fd/{}", offer.process, offer.descriptor)
                                 : name_for(offer.key);
    file_ = anonymous ? ::open(name.c_str(), O_RDWR | O_CLOEXEC)
                      : ::shm_open(name.c_str(), O_RDWR, 0600);
    if (file_ < 0) fail("opening {}: {}", name, system_error());
  };
  const auto map_filled = [&] {
    struct stat status {};
    std::uint64_t key = 0;
    if (::fstat(file_, &status) != 0) fail("fstat: {}", system_error());
    if (status.st_size == static_cast<off_t>(mapped_bytes_)) {
      map();
      std::memcpy(&key, memory_ + mapped_bytes_ - sizeof key, sizeof key);
    }
    if (key != offer.key) {
      fail("descriptor {} of process {} is the file of another process", offer.descriptor,
           offer.process);
    }
  };
  const auto join = [&] {
    if (!first) map_filled();
    struct flock lock = lock_of(node.rank(), F_WRLCK);
    if (::fcntl(file_, F_SETLK, &lock) != 0) fail("locking shared memory: {}", system_error());
  };

  // A file without a name is filled before it is offered, so that the ranks wait for each other once.
  std::exception_ptr failure;
  if (first) {
    try {
      make();
      if (anonymous) fill();
      offer.process = ::getpid();
      offer.descriptor = file_;
    } catch (...) {
      failure = std::current_exception();
    }
  }
  await_ranks(node);
  check_mpi(MPI_Bcast(&offer, sizeof offer, MPI_BYTE, 0, node.native()), "MPI_Bcast");
  together(node, [&] {
    if (failure) std::rethrow_exception(failure);
    if (offer.descriptor < 0) return;  // rank 0 says why
    if (!first) open();
    if (anonymous) join();
  });
  if (anonymous) return;
  named.reset();
  together(node, [&] {
    if (first) fill();
  });
  together(node, join);
}

bool SharedMemory::is_mapped_by(int rank) const {
  struct flock lock = lock_of(rank, F_WRLCK);
  // What this process holds itself is not shown. If the kernel does not answer, nobody is declared
  // dead.
  return ::fcntl(file_, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

}  // namespace meshwork

#include "runtime/checkpoint/written_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>

#include "collectives/error.h"

namespace meshwork {

WrittenFile::WrittenFile(Hdf5File file, std::string name)
    : file_(std::move(file)), name_(std::move(name)) {
  struct stat status {};
  if (::stat(name_.c_str(), &status) == 0) {
    device_ = status.st_dev;
    inode_ = status.st_ino;
  }
}

WrittenFile::~WrittenFile() {
  if (file_.exists()) {
    detach();
  }
}

WrittenFile& WrittenFile::operator=(WrittenFile&& other) noexcept {
  if (this != &other) {
    if (file_.exists()) {
      detach();
    }
    file_ = std::move(other.file_);
    name_ = std::move(other.name_);
    device_ = other.device_;
    inode_ = other.inode_;
  }
  return *this;
}

void WrittenFile::flush() {
  const Hdf5Guard guard;
  check_hdf5(H5Fflush(file_.native(), H5F_SCOPE_GLOBAL), "cannot be written", name_);
}

void WrittenFile::close() {
  detach();
  file_.close(name_);
}

// Where there are no such descriptors, as with file systems that are reached by libraries, or no
// list of them, closing writes to the file.
void WrittenFile::detach() const noexcept {
  const int memory = inode_ == 0 ? -1 : ::memfd_create("detached checkpoint", MFD_CLOEXEC);
  if (memory < 0) {
    return;
  }
  try {
    std::error_code problem;
    std::filesystem::directory_iterator entries("/proc/self/fd", problem);
    for (; !problem && entries != std::filesystem::directory_iterator();
         entries.increment(problem)) {
      const std::string number = entries->path().filename().string();
      int descriptor = -1;
      (void)std::from_chars(number.data(), number.data() + number.size(), descriptor);
      struct stat status {};
      if (descriptor >= 0 && ::fstat(descriptor, &status) == 0 && status.st_dev == device_ &&
          status.st_ino == inode_) {
        (void)::dup3(memory, descriptor, O_CLOEXEC);
      }
    }
  } catch (const std::exception&) {  // no memory for the list
  }
  ::close(memory);
}

}  // namespace meshwork

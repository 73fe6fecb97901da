#include "runtime/train/callbacks/line_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "collectives/failed_write.h"
#include "collectives/file_size_limit.h"
#include "collectives/path_text.h"
#include "runtime/checkpoint/output_place.h"

namespace meshwork {
namespace {

// Whether another run has the lock of the file; takes it, if there are locks.
bool is_taken(int file) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  return ::fcntl(file, F_OFD_SETLK, &whole) != 0 && (errno == EAGAIN || errno == EACCES);
}

bool is_regular(int file) {
  struct stat status {};
  return ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
}

}  // namespace

LineFile::~LineFile() {
  if (opened_ >= 0) ::close(opened_);
}

void LineFile::check(const std::filesystem::path& to_come) const {
  const std::string obstacle = obstacle_to_writing(file_, Writing::in_place, to_come);
  if (!obstacle.empty()) fail("{}: {} cannot be written: {}", owner_, file_, obstacle);
}

void LineFile::replace() {
  open();
  cut(0);
}

std::string LineFile::append(std::optional<std::int64_t> end, const EpochOf& epoch_of,
                             const IsWhole& is_whole) {
  open();
  errno = 0;
  std::ifstream input(file_, std::ios::binary);
  require(input.is_open(), "read");
  std::string first, line;
  std::int64_t read = 0, kept = 0;  // bytes
  while (std::getline(input, line)) {
    const bool ended = !input.eof();
    if (!ended && !is_whole(line, first)) break;
    const std::optional<std::int64_t> epoch = end ? epoch_of(line) : std::nullopt;
    const bool belongs = !epoch || *epoch < *end;
    if (belongs && kept == 0) first = line;
    line += '\n';
    const auto bytes = static_cast<std::int64_t>(line.size());
    if (belongs) {
      if (kept < read || !ended) write_all(line, kept);
      kept += bytes;
    }
    read += bytes;
  }
  require(!input.bad(), "read");
  cut(kept);
  return first;
}

void LineFile::write(const std::string& line, Training& training) {
  write_all(line + '\n', -1);
  named_.look(owner_, training);
}

void LineFile::end(Training& training) {
  named_.look(owner_, training);
  close();
}

void LineFile::close() {
  errno = 0;
  require(opened_ < 0 || ::close(std::exchange(opened_, -1)) == 0, "closed");
}

void LineFile::open() {
  close();
  opened_ = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (opened_ < 0) {
    const int reason = errno;
    fail_to_make(reason,
                 fmt::format("{}: {} cannot be opened: {}", owner_, file_, std::strerror(reason)));
  }
  if (is_regular(opened_) && is_taken(opened_)) {
    throw FailedWrite(fmt::format("{}: {} is being written by another run", owner_, file_));
  }
  named_ = WatchedName(file_);
}

// Then lines go behind what is left, whoever else writes there.
void LineFile::cut(std::int64_t bytes) const {
  if (is_regular(opened_)) require(::ftruncate(opened_, bytes) == 0, "cut");
  require(::fcntl(opened_, F_SETFL, O_APPEND) == 0, "opened to append");
}

// At the byte `at`, or where the file is written next.
void LineFile::write_all(std::string_view text, std::int64_t at) const {
  const FileSizeSignalBlocked blocked;
  while (!text.empty()) {
    const ssize_t count = at < 0 ? ::write(opened_, text.data(), text.size())
                                 : ::pwrite(opened_, text.data(), text.size(), at);
    if (count < 0 && errno == EINTR) continue;
    require(count >= 0, "written");
    text.remove_prefix(static_cast<std::size_t>(count));
    if (at >= 0) at += count;
  }
}

void LineFile::require(bool done, const char* what) const {
  if (!done) fail("{}: {} cannot be {}: {}", owner_, file_, what, std::strerror(errno));
}

}  // namespace meshwork

#include "runtime/train/callbacks/line_file.h"

#include <cerrno>
#include <cstring>
#include <sstream>
#include <system_error>

#include "collectives/error.h"
#include "collectives/file_size_limit.h"
#include "runtime/checkpoint/output_place.h"

namespace meshwork {

void LineFile::check(const std::filesystem::path& to_come) const {
  const std::string obstacle = obstacle_to_writing(file_, Writing::in_place, to_come);
  if (!obstacle.empty()) fail("{}: {} cannot be written: {}", owner_, file_.string(), obstacle);
}

void LineFile::replace() {
  open(std::ios::trunc);
}

std::string LineFile::append(std::optional<std::int64_t> end, const EpochOf& epoch_of) {
  std::string first;
  std::error_code problem;
  if (std::filesystem::exists(file_, problem)) {
    errno = 0;
    std::ifstream input(file_, std::ios::binary);
    std::ostringstream content;
    content << input.rdbuf();
    if (!input && !input.eof()) {
      fail("{}: {} cannot be read: {}", owner_, file_.string(), std::strerror(errno));
    }
    const std::string text = content.str();
    std::size_t kept = 0;
    for (std::size_t line_end; (line_end = text.find('\n', kept)) != std::string::npos;
         kept = line_end + 1) {
      const std::string_view line = std::string_view(text).substr(kept, line_end - kept);
      const std::optional<std::int64_t> epoch = end ? epoch_of(line) : std::nullopt;
      if (epoch && *epoch >= *end) {
        break;
      }
      if (kept == 0) {
        first = line;
      }
    }
    if (kept < text.size()) {
      std::filesystem::resize_file(file_, kept, problem);
      if (problem) {
        fail("{}: {} cannot be cut to {} bytes: {}", owner_, file_.string(), kept,
             problem.message());
      }
    }
  }
  open(std::ios::app);
  return first;
}

void LineFile::write(const std::string& line) {
  const FileSizeSignalBlocked blocked;
  errno = 0;
  stream_ << line << '\n' << std::flush;
  check_stream("written");
}

void LineFile::close() {
  errno = 0;
  stream_.close();
  check_stream("closed");
}

void LineFile::open(std::ios::openmode mode) {
  errno = 0;
  stream_ = std::ofstream(file_, mode);
  check_stream("opened");
}

void LineFile::check_stream(const char* what) const {
  if (!stream_) {
    fail("{}: {} cannot be {}: {}", owner_, file_.string(), what,
         errno ? std::strerror(errno) : "unknown reason");
  }
}

}  // namespace meshwork

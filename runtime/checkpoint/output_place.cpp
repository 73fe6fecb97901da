#include "runtime/checkpoint/output_place.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

#include "collectives/failed_write.h"
#include "collectives/file_size_limit.h"
#include "collectives/path_text.h"
#include "runtime/checkpoint/new_file.h"

namespace meshwork {
namespace {

namespace fs = std::filesystem;

constexpr int most_links = 40;  // as the system has it

bool is_same_folder(const fs::path& a, const fs::path& b) {
  std::error_code problem;
  const auto whole = [&](const fs::path& folder) {
    return fs::weakly_canonical(fs::absolute(folder, problem) / "", problem);
  };
  return !b.empty() && whole(a) == whole(b) && !problem;
}

// Of the folder for new files.
std::string obstacle_in(const fs::path& folder, const fs::path& to_come) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) {
    if (errno != ENOENT) return std::strerror(errno);
    return is_same_folder(folder, to_come) ? "" : fmt::format("there is no folder {}", folder);
  }
  if (!S_ISDIR(status.st_mode)) return fmt::format("{} is no folder", folder);
  return ::access(folder.c_str(), W_OK | X_OK) == 0 ? "" : std::strerror(errno);
}

}  // namespace

fs::path target_of(fs::path file) {
  for (int links = 0; links < most_links; ++links) {
    std::error_code code;
    const fs::path next = fs::read_symlink(file, code);
    if (code) break;
    file = file.parent_path() / next;  // which is `next` alone if that is absolute
  }
  return file;
}

std::string obstacle_to_writing(const fs::path& file, Writing how, const fs::path& to_come) {
  const fs::path target = how == Writing::in_place ? target_of(file) : file;
  if (!target.has_filename()) return "it is a folder";
  const bool through_link = target != file;
  const auto told = [&](const std::string& obstacle) {
    return obstacle.empty() || !through_link
               ? obstacle
               : fmt::format("it is a link to {}: {}", target, obstacle);
  };
  if (is_same_folder(target, to_come)) return told("it is a folder, that of the checkpoints");
  struct stat status {};
  const bool there = ::stat(target.c_str(), &status) == 0;
  if (!there && errno != ENOENT) return told(std::strerror(errno));
  if (there && S_ISDIR(status.st_mode)) return told("it is a folder");
  if (there && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode))) {
    return told("it is a pipe, and writing would wait for a reader; a file is expected");
  }
  if (there && how == Writing::in_place) {
    return ::access(target.c_str(), W_OK) == 0 ? "" : told(std::strerror(errno));
  }
  if (how == Writing::beside) {
    const fs::path first = name_while_writing(target);
    const bool in_the_way = ::lstat(first.c_str(), &status) == 0;
    if (!in_the_way && errno != ENOENT) return told(std::strerror(errno));
    if (in_the_way && !S_ISREG(status.st_mode)) {
      return told(fmt::format("{} is in the way, and no earlier run left it", first));
    }
  }
  return told(
      obstacle_in(target.has_parent_path() ? target.parent_path() : fs::path("."), to_come));
}

std::string obstacle_to_folder(const fs::path& folder) {
  fs::path there = folder;  // the innermost that is
  struct stat status {};
  while (::lstat(there.c_str(), &status) != 0) {
    if (errno != ENOENT) return std::strerror(errno);
    const fs::path above = there.parent_path();
    there = above == there || above.empty() ? "." : above;
  }
  return obstacle_in(there, {});
}

void write_whole(const fs::path& file, std::string_view text) {
  const FileSizeSignalBlocked blocked;
  NewFile made(file);
  errno = 0;
  std::ofstream out(made.temporary(), std::ios::binary);
  out << text;
  out.close();
  if (!out) {
    throw FailedWrite(
        fmt::format("{}: cannot be written: {}", file, std::strerror(errno != 0 ? errno : EIO)));
  }
  made.give_name();
}

}  // namespace meshwork

#include "runtime/checkpoint/directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <system_error>
#include <tuple>

#include "collectives/error.h"
#include "collectives/failed_write.h"
#include "collectives/path_text.h"
#include "collectives/wrong_input.h"
#include "runtime/checkpoint/new_file.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/data/hdf5_handles.h"

namespace meshwork {
namespace {

constexpr std::string_view prefix = "step-";
constexpr std::string_view extension = ".h5";

FoundCheckpoint look_at(const std::filesystem::path& file, std::int64_t step_of_name,
                        const std::string& monitor) {
  FoundCheckpoint found{file, step_of_name, 0, "", std::nullopt, ""};
  try {
    const CheckpointReader reader(file);
    found.step = reader.state().step;
    found.epoch = reader.state().epoch;
    for (const auto& [name, value] : reader.state().logs) {
      if (name == monitor) {
        found.monitored = value;
      }
    }
  } catch (const DamagedCheckpoint& damage) {
    found.damage = damage.what();
  } catch (const SystemFailure& failure) {
    found.refusal = failure.what();
  }
  return found;
}

bool is_newer(const FoundCheckpoint& a, const FoundCheckpoint& b) {
  return std::tie(a.step, a.epoch) > std::tie(b.step, b.epoch);
}

}  // namespace

std::string checkpoint_name(std::int64_t step) {
  return fmt::format("{}{:09}{}", prefix, step, extension);
}

std::optional<std::int64_t> step_in_name(const std::string& name) {
  if (!name.starts_with(prefix) || !name.ends_with(extension)) {
    return std::nullopt;
  }
  const char* begin = name.data() + prefix.size();
  const char* end = name.data() + name.size() - extension.size();
  std::int64_t step = 0;
  const auto parsed = std::from_chars(begin, end, step);
  if (parsed.ec != std::errc() || parsed.ptr != end || begin == end || step < 0) {
    return std::nullopt;
  }
  return step;
}

CheckpointListing list_checkpoints(const std::filesystem::path& directory,
                                   const std::string& monitor) {
  CheckpointListing listing;
  std::error_code problem;
  const std::filesystem::file_status status = std::filesystem::status(directory, problem);
  if (!std::filesystem::exists(status)) {
    if (problem && problem != std::errc::no_such_file_or_directory &&
        problem != std::errc::not_a_directory) {
      fail("checkpoint directory {}: {}", directory, problem.message());
    }
    return listing;
  }
  std::filesystem::directory_iterator entries(directory, problem);
  for (; !problem && entries != std::filesystem::directory_iterator(); entries.increment(problem)) {
    const std::string name = entries->path().filename().string();
    if (const std::optional<std::int64_t> step = step_in_name(name)) {
      listing.checkpoints.push_back(look_at(entries->path(), *step, monitor));
    } else if (name.ends_with(unfinished) &&
               step_in_name(name.substr(0, name.size() - unfinished.size()))) {
      listing.unfinished.push_back(entries->path());
    }
  }
  if (problem) {
    fail("checkpoint directory {}: cannot be listed: {}", directory, problem.message());
  }
  std::sort(listing.checkpoints.begin(), listing.checkpoints.end(), is_newer);
  std::sort(listing.unfinished.begin(), listing.unfinished.end());
  return listing;
}

void check_directory(const std::filesystem::path& directory) {
  const std::string name = directory.string();
  // The longest name in it, by which the system goes all the way.
  const std::filesystem::path file = directory / (checkpoint_name(0) + std::string(unfinished));
  struct stat status {};
  if (::lstat(file.c_str(), &status) != 0 && errno != ENOENT && errno != ENOTDIR) {
    fail("checkpoint directory {}: cannot be reached: {}", name, std::strerror(errno));
  }
  // The innermost that is there.
  std::filesystem::path there = directory;
  std::size_t longest = 0;  // name of those that are not
  while (there != "." && ::lstat(there.c_str(), &status) != 0) {
    longest = std::max(longest, there.filename().native().size());
    there = there.has_relative_path() && there.has_parent_path() ? there.parent_path() : ".";
  }
  if (::stat(there.c_str(), &status) != 0) {
    fail("checkpoint directory {}: {} is a symbolic link to an unreachable path: {}", name, there,
         std::strerror(errno));
  }
  if (!S_ISDIR(status.st_mode)) {
    fail("checkpoint directory {}: {}is no directory", name,
         there == directory ? "" : there.string() + " ");
  }
  if (::access(there.c_str(), W_OK | X_OK) != 0) {
    fail("checkpoint directory {}: {} cannot be made in {}: {}", name,
         there == directory ? "files" : "it", there == directory ? "it" : there.string(),
         std::strerror(errno));
  }
  if (there == directory && ::access(there.c_str(), R_OK) != 0) {
    fail("checkpoint directory {}: cannot be listed: {}", name, std::strerror(errno));
  }
  const long most = ::pathconf(there.c_str(), _PC_NAME_MAX);
  if (most > 0 && longest > static_cast<std::size_t>(most)) {
    fail("checkpoint directory {}: cannot be made: {}", name, std::strerror(ENAMETOOLONG));
  }
}

std::optional<FoundCheckpoint> newest_in(const std::filesystem::path& directory) {
  for (FoundCheckpoint& found : list_checkpoints(directory, "").checkpoints) {
    std::error_code problem;
    if (!std::filesystem::is_directory(found.file, problem)) return std::move(found);
  }
  return std::nullopt;
}

void check_unused(const std::filesystem::path& directory) {
  if (const auto newest = newest_in(directory)) {
    throw WrongInput(fmt::format(
        "checkpoint directory {} has checkpoints of an earlier run, up to step {}; continue from "
        "them (--resume, or checkpoint.resume: auto), or give this run another directory",
        directory, newest->step));
  }
}

void prepare_directory(const std::filesystem::path& directory) {
  std::error_code problem;
  std::filesystem::create_directories(directory, problem);
  if (problem) {
    fail_to_make(problem.value(), fmt::format("checkpoint directory {}: cannot be made: {}",
                                              directory, problem.message()));
  }
  if (!std::filesystem::is_directory(directory, problem)) {
    fail("checkpoint directory {}: is no directory", directory);
  }
  if (::access(directory.c_str(), W_OK | X_OK) != 0) {
    fail("checkpoint directory {}: files cannot be made in it: {}", directory,
         std::strerror(errno));
  }
}

std::vector<FoundCheckpoint> superfluous(const std::vector<FoundCheckpoint>& checkpoints,
                                         std::int64_t keep, bool lower_is_better) {
  std::vector<FoundCheckpoint> whole;
  for (const FoundCheckpoint& checkpoint : checkpoints) {
    if (checkpoint.readable()) {
      whole.push_back(checkpoint);
    }
  }
  std::sort(whole.begin(), whole.end(), is_newer);
  const FoundCheckpoint* best = nullptr;
  for (auto at = whole.rbegin(); at != whole.rend(); ++at) {
    if (at->monitored && !std::isnan(*at->monitored) &&
        (best == nullptr || (lower_is_better ? *at->monitored < *best->monitored
                                             : *at->monitored > *best->monitored))) {
      best = &*at;
    }
  }
  std::vector<FoundCheckpoint> going;
  for (std::size_t i = static_cast<std::size_t>(std::max<std::int64_t>(keep, 1)); i < whole.size();
       ++i) {
    if (&whole[i] != best) {
      going.push_back(whole[i]);
    }
  }
  return going;
}

}  // namespace meshwork

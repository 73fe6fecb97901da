#include "launch/run_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <system_error>

#include "collectives/error.h"
#include "collectives/path_text.h"
#include "runtime/checkpoint/descriptor.h"
#include "runtime/checkpoint/directory.h"
#include "runtime/checkpoint/hdf5_values.h"
#include "runtime/checkpoint/keras_weights.h"
#include "runtime/checkpoint/new_file.h"

namespace meshwork {
namespace {

namespace fs = std::filesystem;

// Where the file is, or would be: the same text for the same file, by whatever name.
std::string place_of(const fs::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) == 0) {
    return fmt::format("{}:{}", status.st_dev, status.st_ino);
  }
  std::error_code problem;
  const fs::path place = fs::weakly_canonical(fs::absolute(target_of(file), problem), problem);
  return problem ? file.string() : place.string();
}

// Whether checkpoints are called so, while they are written too, or the lock of their directory.
bool is_name_of_checkpoints(const fs::path& file) {
  const fs::path name = file.extension() == unfinished ? file.stem() : file.filename();
  return step_in_name(name.string()) || name == ".lock";
}

// What `judge` says; false where the file is none that it can read.
template <class Judge>
bool judged(const Judge& judge) {
  try {
    return judge();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

bool is_predictions(const fs::path& file) {
  if (file.extension() == ".csv") {
    const std::string begin = begin_of(file);
    return begin.starts_with("output_") &&
           std::string_view(begin).substr(0, begin.find_first_of(",\n")).ends_with("_0");
  }
  return judged([&] {
    const Hdf5Guard guard;
    const Hdf5File opened = open_for_reading(file, H5P_DEFAULT, "a file of predictions");
    const std::string name = file.string();
    return link_names(open_group(opened.native(), "/", name), name) ==
           std::vector<std::string>{"predictions"};
  });
}

bool is_keras_weights(const fs::path& file) {
  return judged([&] {
    (void)KerasWeightsReader(file);
    return true;
  });
}

bool is_checkpoint_of_ours(const fs::path& file) {
  return judged([&] { return is_checkpoint_file(file); });
}

void RunFiles::read(const fs::path& file, const std::string& what) {
  std::error_code problem;
  if (!file.empty() && fs::exists(file, problem)) read_.push_back({place_of(file), what});
}

void RunFiles::keep_checkpoints(const fs::path& directory) {
  directory_ = directory;
  checkpoints_ = place_of(directory);
  std::error_code problem;
  for (fs::directory_iterator one(directory, problem), end; one != end; one.increment(problem)) {
    if (step_in_name(one->path().filename().string())) read(one->path(), "a checkpoint");
  }
}

void RunFiles::write(const fs::path& file, const std::string& what, const IsSameKind& is_same_kind,
                     Writing how) {
  if (const std::string obstacle = obstacle_to_writing(file, how, directory_); !obstacle.empty()) {
    fail("{}: {} cannot be written: {}", file, what, obstacle);
  }
  const std::string place = place_of(file);
  const auto known = [&](const std::vector<Known>& files, const std::string& at) {
    return std::find_if(files.begin(), files.end(),
                        [&](const Known& one) { return one.place == at; });
  };
  for (const fs::path& one : {file, name_while_writing(file)}) {
    if (const auto input = known(read_, place_of(one)); input != read_.end()) {
      fail("{}: is {} of this run; {} would overwrite it", one, input->what, what);
    }
  }
  for (const fs::path& one : {file, target_of(file)}) {
    if (!checkpoints_.empty() && is_name_of_checkpoints(one) &&
        place_of(one.has_parent_path() ? one.parent_path() : fs::path(".")) == checkpoints_) {
      fail("{}: is {} of this run's checkpoints; {} needs another", file,
           one == file ? "a name" : "a link to a name", what);
    }
  }
  if (const auto other = known(written_, place); other != written_.end()) {
    fail("{}: {} and {} would both be written to it", file, other->what, what);
  }
  std::error_code problem;
  const bool regular = fs::is_regular_file(file, problem);
  if (!regular && fs::exists(file, problem)) {
    fail("{}: is a device; {} is written to a file", file, what);
  }
  if (regular && fs::file_size(file, problem) > 0 && !overwrite_ && !is_same_kind(file)) {
    fail("{}: exists and is not {}; --overwrite replaces it", file, what);
  }
  written_.push_back({place, what});
}

void RunFiles::fill(const fs::path& folder, const std::string& what) {
  const std::string place = place_of(folder);
  for (const Known& one : filled_) {
    if (one.place == place) {
      fail("{}: {} and {} would both fill it; give each a folder of its own", folder.string(),
           one.what, what);
    }
  }
  filled_.push_back({place, what});
}

}  // namespace meshwork

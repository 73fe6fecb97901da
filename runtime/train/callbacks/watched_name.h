// WatchedName: the name of a file that a run goes on writing, which somebody may take away, or give
// to another file. The run writes the file that it has opened; a warning says once that the name
// does not lead there.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <utility>

#include "collectives/path_text.h"
#include "runtime/checkpoint/file_identity.h"
#include "runtime/train/loop/training.h"

namespace meshwork {

class WatchedName {
 public:
  WatchedName() = default;
  /// `file` is there. A link to it is one of its names.
  explicit WatchedName(std::filesystem::path file)
      : file_(std::move(file)), own_(identity_behind(file_)) {}

  /// Looks, where there is a file. The warning, which `owner` begins, goes to the user of
  /// `training`.
  void look(const std::string& owner, Training& training) {
    if (own_ == FileIdentity() || warned_ || identity_behind(file_) == own_) return;
    training.say(
        fmt::format("WARNING: {}: another program has removed, renamed or replaced {}; this run "
                    "goes on writing its own file, which has lost its name",
                    owner, file_));
    warned_ = true;
  }

 private:
  std::filesystem::path file_;
  FileIdentity own_;
  bool warned_ = false;
};

}  // namespace meshwork

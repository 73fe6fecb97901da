// An error about something that has a path in a graph: "block/d1: expected ...".
//
// The path and the problem are kept apart, so that a block that hands such an error on can put its
// own path in front of the other, instead of a second prefix.
#pragma once

#include <string>
#include <utility>

#include "collectives/error.h"

namespace meshwork {

class PathError : public Error {
 public:
  PathError(std::string path, std::string problem)
      : Error(path + ": " + problem), path_(std::move(path)), problem_(std::move(problem)) {}
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::string& problem() const { return problem_; }
  /// The same about `scope`/path.
  [[nodiscard]] PathError within(const std::string& scope) const {
    return {scope + "/" + path_, problem_};
  }

 private:
  std::string path_;
  std::string problem_;
};

}  // namespace meshwork

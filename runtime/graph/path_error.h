// An error about something that has a path in a graph: "block/d1: expected ...".
//
// The path and the problem are kept apart, so that a block that hands such an error on can put its
// own path in front of the other, instead of a second prefix. `named` is for what users write.
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

/// What `function`, the part `name` of something at `path`, returns. An exception out of it that is
/// no `Error`, as parts of extensions may throw, becomes one that names both.
template <class Function>
decltype(auto) named(const std::string& path, const char* name, Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    fail("{}: {} throws: {}", path, name, message_of(error));
  } catch (...) {
    fail("{}: {} throws an exception of unknown type", path, name);
  }
}

}  // namespace meshwork

// The configurations that `meshwork new` prints: those in configs/new, each a file, which the build
// makes part of the program (launch/cmake/new_configurations.cmake).
#pragma once

#include <string>
#include <vector>

namespace meshwork {

struct NewConfiguration {
  std::string kind;  // the file's name without its ending: "regression"
  std::string text;
};

/// All, by their kinds.
[[nodiscard]] std::vector<NewConfiguration> new_configurations();

}  // namespace meshwork

// Libraries of ours that are opened when what they hold is asked for: they need others that are
// large, or that are not everywhere.
#pragma once

#include <string>

namespace meshwork {

/// What a library exports under a name, or why it is not to be had.
struct OpenedLibrary {
  const void* exported = nullptr;
  std::string problem;  // empty if it is there
};

/// Opens the library in the file `name`, which lies beside the one that holds this function, and
/// finds `symbol` in it. It is never closed. Nothing is opened where there is no NVIDIA driver.
[[nodiscard]] OpenedLibrary open_gpu_library(const std::string& name, const std::string& symbol);

}  // namespace meshwork

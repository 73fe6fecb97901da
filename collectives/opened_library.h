// Libraries of ours that are opened when what they hold is asked for: they need others that are
// large, or that are not everywhere.
#pragma once

#include <filesystem>
#include <string>

namespace meshwork {

/// What a library exports under a name, or why it is not to be had.
struct OpenedLibrary {
  const void* exported = nullptr;
  std::string problem;  // empty if it is there
};

/// Opens the library in the file `name`, in the folder of libraries (`folder_of_libraries`), and finds
/// `symbol` in it. It is never closed. Nothing is opened where there is no NVIDIA driver.
[[nodiscard]] OpenedLibrary open_gpu_library(const std::string& name, const std::string& symbol);

/// Where the other libraries are if this one is the file `library`: beside it, or beside its folder
/// glibc-hwcaps/LEVEL, from which the loader takes the library for the processor.
[[nodiscard]] std::filesystem::path folder_of_libraries(const std::filesystem::path& library);

}  // namespace meshwork

#include "collectives/opened_library.h"

#include <dlfcn.h>

#include <filesystem>

namespace meshwork {

namespace {

/// Where this code lies: the others are beside it, or beside the libraries of an installed program.
std::filesystem::path folder_of_this() {
  Dl_info found{};
  if (::dladdr(reinterpret_cast<const void*>(&folder_of_this), &found) == 0) return {};
  return folder_of_libraries(found.dli_fname);
}

}  // namespace

std::filesystem::path folder_of_libraries(const std::filesystem::path& library) {
  std::filesystem::path folder = library.parent_path();
  const std::filesystem::path levels = folder.parent_path();
  return levels.filename() == "glibc-hwcaps" ? levels.parent_path() : folder;
}

OpenedLibrary open_gpu_library(const std::string& name, const std::string& symbol) {
  // The driver alone is small, and tells whether it is worth going on.
  if (::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) == nullptr) {
    return {nullptr, "no NVIDIA driver is installed (libcuda.so.1 cannot be loaded)"};
  }
  void* const library = ::dlopen((folder_of_this() / name).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {nullptr, ::dlerror()};
  const void* const exported = ::dlsym(library, symbol.c_str());
  if (exported == nullptr) return {nullptr, name + " has no " + symbol};
  return {exported, ""};
}

}  // namespace meshwork

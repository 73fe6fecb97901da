#include "collectives/nccl/library.h"

#include "collectives/error.h"
#include "collectives/opened_library.h"

namespace meshwork::nccl {

Found find() {
  static const OpenedLibrary opened = open_gpu_library("libmeshwork_nccl.so", "meshwork_nccl");
  if (opened.exported == nullptr) return {.problem = opened.problem};
  const auto* library = static_cast<const NcclLibrary*>(opened.exported);
  try {
    return {
        .problem = "", .version = library->version(), .gpu = library->gpu(), .make = library->make};
  } catch (const Error& error) {
    return {.problem = error.what()};
  }
}

}  // namespace meshwork::nccl

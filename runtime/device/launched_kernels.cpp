#include "runtime/device/launched_kernels.h"

namespace meshwork::gpu {

namespace {

/// What extensions of this process have entered.
std::vector<std::function<void(Kernels&)>>& extensions() {
  static std::vector<std::function<void(Kernels&)>> all;
  return all;
}

}  // namespace

void extend_kernels(std::function<void(Kernels&)> enter) {
  extensions().push_back(std::move(enter));
}

Kernels extended_kernels() {
  Kernels kernels;
  for (const auto& enter : extensions()) enter(kernels);
  return kernels;
}

}  // namespace meshwork::gpu

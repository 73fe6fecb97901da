// A library with a specification of kernels whose name others may have.
#include <meshwork/extension.h>

#include "runtime/device/cpu/kernels.h"

namespace same {

struct Spec {
  [[nodiscard]] std::string text() const { return "same"; }
  [[nodiscard]] meshwork::KernelWork work() const { return {}; }
};

}  // namespace same

MESHWORK_EXTENSION(catalog) {
  static_cast<void>(catalog);
  meshwork::cpu::extend_kernels([](meshwork::cpu::Kernels& kernels) {
    kernels.add<same::Spec>([](const same::Spec&, const meshwork::cpu::Context&) {
      return std::unique_ptr<meshwork::Kernel>();
    });
  });
}

// Optimizers: the updates that every device has.
#include "runtime/device/kernels/updates.h"

#include "runtime/device/cpu/update_loops.h"

namespace meshwork::cpu {

void add_updates(Kernels& kernels) {
  EveryUpdate::enter(kernels, [](const auto& spec, const Context& context) {
    return compile_update(spec, context);
  });
}

}  // namespace meshwork::cpu

#include "runtime/graph/lowering.h"

#include "runtime/device/kernels/elementwise.h"

namespace meshwork {

void Lowering::zero(std::int64_t count, Operand operand) {
  emit(ZeroSpec{count * float32_bytes}, {operand});
}

}  // namespace meshwork

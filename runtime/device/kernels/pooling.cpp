#include "runtime/device/kernels/pooling.h"

#include <limits>

#include "collectives/error.h"

namespace meshwork {

std::string PoolingShape::text(std::string_view name) const {
  return spec::sized(name, {batch, rows.input, columns.input, channels}) +
         spec::sized(" to", {rows.output, columns.output}) + spec::windows(rows, columns);
}

KernelWork PoolingShape::work(bool winners) const {
  const double input = spec::product({batch, rows.input, columns.input, channels});
  const double output = spec::product({batch, rows.output, columns.output, channels});
  KernelWork work = spec::elements(input + output);
  if (winners) work.bytes += output * static_cast<double>(element_bytes(winner_type(*this)));
  return work;
}

void PoolingShape::check(const std::string& kernel) const {
  spec::check_windows(rows, columns, kernel);
  if (rows.window > std::numeric_limits<std::int32_t>::max() / columns.window) {
    fail("{}: a window has more places than 32 bits count", kernel);
  }
}

}  // namespace meshwork

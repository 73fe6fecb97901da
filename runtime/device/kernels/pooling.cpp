#include "runtime/device/kernels/pooling.h"

#include <limits>

#include "collectives/error.h"

namespace meshwork {

std::string PoolingShape::text(std::string_view name) const {
  const std::vector<WindowDimension> windows = dimensions_of(*this);
  return fmt::format("{} {}x{}x{} to {}", name, batch,
                     spec::lengths(windows, &WindowDimension::input), channels,
                     spec::lengths(windows, &WindowDimension::output)) +
         spec::windows(windows);
}

KernelWork PoolingShape::work(bool winners) const {
  const double input = spec::product({batch, planes.input, rows.input, columns.input, channels});
  const double output =
      spec::product({batch, planes.output, rows.output, columns.output, channels});
  KernelWork work = spec::elements(input + output);
  if (winners) work.bytes += output * static_cast<double>(element_bytes(winner_type(*this)));
  return work;
}

void PoolingShape::check(const std::string& kernel) const {
  spec::check_windows(dimensions_of(*this), kernel);
  const std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (rows.window > most / columns.window ||
      planes.window > most / (rows.window * columns.window)) {
    fail("{}: a window has more places than 32 bits count", kernel);
  }
}

}  // namespace meshwork

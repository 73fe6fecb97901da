#include "runtime/device/kernels/norms.h"

#include "collectives/error.h"

namespace meshwork {

std::string ClipFactorSpec::text() const {
  return fmt::format("clip factor {}", clip) + spec::words({{global, "global"}});
}

}  // namespace meshwork

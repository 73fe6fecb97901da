#include "runtime/device/kernels/upsampling.h"

namespace meshwork {

std::string UpsamplingShape::text(std::string_view name) const {
  const std::string whole =
      std::string(interpolation == Interpolation::nearest ? "nearest " : "bilinear ").append(name);
  return spec::sized(whole, {batch, rows.input, columns.input, channels}) +
         spec::sized(" to", {rows.output, columns.output});
}

KernelWork UpsamplingShape::work() const {
  return spec::elements(spec::product({batch, rows.input, columns.input, channels}) +
                        spec::product({batch, rows.output, columns.output, channels}));
}

}  // namespace meshwork

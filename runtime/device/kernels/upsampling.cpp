#include "runtime/device/kernels/upsampling.h"

#include <algorithm>

namespace meshwork {

LookedAt looked_at(std::int64_t output, std::int64_t length, std::int64_t made,
                   Interpolation interpolation) {
  // In units of 1 / (2 made), which are exact.
  const std::int64_t unit = 2 * made, middle = (2 * output + 1) * length;
  if (interpolation == Interpolation::nearest) return {middle / unit, middle / unit, 0};
  const std::int64_t place = std::clamp<std::int64_t>(middle - made, 0, unit * (length - 1));
  const std::int64_t low = place / unit, part = place % unit;
  return {low, part == 0 ? low : low + 1, part};
}

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

#include "runtime/device/upsampling_looks.h"

#include <algorithm>

#include "collectives/error.h"

namespace meshwork {

std::vector<Look> looks_of(const UpsamplingDimension& at, Interpolation interpolation,
                           const std::string& name) {
  if (at.factor < 1 || at.input < 0 || at.output < 0) {
    internal_error(fmt::format("{} has a factor below 1 or a negative length", name));
  }
  std::vector<Look> looks;
  for (std::int64_t i = 0; i < at.output; ++i) {
    const std::int64_t output = at.first_output + i;
    Look look{output / at.factor, output / at.factor, 0.0f};
    if (interpolation == Interpolation::bilinear) {
      // (output + 1/2) / factor - 1/2 in units of 1 / (2 factor)
      const std::int64_t unit = 2 * at.factor;
      const std::int64_t place =
          std::clamp<std::int64_t>(2 * output + 1 - at.factor, 0, unit * (at.length - 1));
      look.low = place / unit;
      look.weight = static_cast<float>(place % unit) / static_cast<float>(unit);
      look.high = place % unit == 0 ? look.low : look.low + 1;
    }
    look.low -= at.first_input;
    look.high -= at.first_input;
    if (look.low < 0 || look.high >= at.input) {
      internal_error(
          fmt::format("{}: output {} looks at inputs {} to {}, of which {} are held from "
                      "{} on",
                      name, output, look.low + at.first_input, look.high + at.first_input, at.input,
                      at.first_input));
    }
    looks.push_back(look);
  }
  return looks;
}

}  // namespace meshwork

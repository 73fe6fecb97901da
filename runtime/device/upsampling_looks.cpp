#include "runtime/device/upsampling_looks.h"

#include "collectives/error.h"

namespace meshwork {

std::vector<Look> looks_of(const UpsamplingDimension& at, Interpolation interpolation,
                           const std::string& name) {
  if (at.length < 1 || at.made < 1 || at.input < 0 || at.output < 0) {
    internal_error(fmt::format("{} has a length below 1, or part of one below 0", name));
  }
  std::vector<Look> looks;
  for (std::int64_t i = 0; i < at.output; ++i) {
    const std::int64_t output = at.first_output + i;
    const LookedAt seen = looked_at(output, at.length, at.made, interpolation);
    Look look{
        seen.low, seen.high,
        static_cast<float>(static_cast<double>(seen.part) / static_cast<double>(2 * at.made))};
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

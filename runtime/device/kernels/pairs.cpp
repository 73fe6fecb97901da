#include "runtime/device/kernels/pairs.h"

#include <array>

namespace meshwork {

std::string_view name_of(PairFunction function) {
  constexpr std::array<std::string_view, 4> names{"product", "difference", "maximum", "minimum"};
  return names[static_cast<std::size_t>(function)];
}

std::string PairGradientSpec::text() const {
  return spec::sized(std::string(name_of(function)) + " gradient", {count}) +
         spec::words({{!first, "of the second"}});
}

void PairGradientSpec::check() const {
  spec::require(function == PairFunction::maximum || function == PairFunction::minimum, text(),
                "chooses no element");
}

}  // namespace meshwork

// LeakyReLU and ELU: activations with a number of the user's.
#pragma once

#include <string>

#include "runtime/graph/layer.h"

namespace meshwork {

struct LeakyReLUOptions {
  std::string name;
  float negative_slope = 0.3f;
};

struct ELUOptions {
  std::string name;
  float alpha = 1;
};

/// y = x where x > 0, else negative_slope * x. No variables. In paths it is "leaky_re_lu", as in
/// Keras. Throws `Error` for a slope that is negative or no number.
[[nodiscard]] SharedLayer LeakyReLU(LeakyReLUOptions options = {});
/// y = x where x > 0, else alpha * (e^x - 1). No variables. Throws `Error` for an alpha that is
/// negative or no number.
[[nodiscard]] SharedLayer ELU(ELUOptions options = {});

}  // namespace meshwork

// Identity: what it is given, with a name of its own.
#pragma once

#include <string>

#include "runtime/graph/layer.h"

namespace meshwork {

struct IdentityOptions {
  std::string name;
};

/// y = x. No variables; moves no data.
[[nodiscard]] SharedLayer Identity(IdentityOptions options = {});

}  // namespace meshwork

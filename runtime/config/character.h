// An option of one character.
#pragma once

#include "runtime/config/node.h"

namespace meshwork {

/// Throws `ConfigError` for a text of another length.
void from_config(const ConfigNode& node, char& character);

}  // namespace meshwork

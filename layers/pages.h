// The layers that Meshwork is built with.
#pragma once

#include "runtime/config/catalog.h"

namespace meshwork {

/// Enters every page of this folder.
void add_layers(Catalog& catalog);

}  // namespace meshwork

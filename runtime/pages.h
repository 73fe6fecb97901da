// The losses, metrics, optimizers, schedules and callbacks that Meshwork is built with.
#pragma once

#include "runtime/config/catalog.h"

namespace meshwork {

/// Enters every page of this room.
void add_runtime(Catalog& catalog);

}  // namespace meshwork

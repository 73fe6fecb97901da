// Extension: classes and kernels of one's own, in a shared library that a run loads.
//
//     #include <meshwork/extension.h>
//
//     MESHWORK_EXTENSION(catalog) { add_swish(catalog); }
//
// Its pages are like those of Meshwork: what `add_swish` enters in the catalog (catalog.h) is named
// in configurations, described by `meshwork reference`, and written to checkpoints like all else. A
// configuration lists libraries under `extensions`; `--extension` adds one.
// launch/examples/extension has a page of each kind.
//
// A catalog has a library once. That stays until the process ends, since its objects may live as
// long. Kernels are those of the process: devices that are made from then on have them.
#pragma once

#include <string>

#include "runtime/config/catalog.h"

namespace meshwork {

/// Loads the shared library in `path` and lets it enter what it has, unless `catalog` has the
/// library already. Throws `Error`, and leaves the catalog as it was: no such file, one that cannot
/// be loaded or is no extension, one built for another version of Meshwork, or what it throws; a
/// program that has Meshwork as a static library. Every rank loads the library; the caller sees to
/// it that all have the same.
void load_extension(const std::string& path, Catalog& catalog);

}  // namespace meshwork

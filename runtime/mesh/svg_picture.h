// A picture of a layout as SVG: on the left the mesh, a square for each rank, on the right the
// tensor, cut into blocks. A rank has the colour of the block that it holds.
//
// The last axis of the mesh runs to the right, the others are folded into rows. Up to 8 rows and
// columns are drawn on either side; the rest is elided in the middle.
#pragma once

#include <string>

#include "runtime/mesh/layout.h"

namespace meshwork {

/// A whole SVG document. `name` is the tensor's path. Throws `Error` if `layout` does not fit
/// `shape`.
[[nodiscard]] std::string svg_picture(const std::string& name, const Layout& layout,
                                      const Shape& shape, const MeshShape& mesh);

}  // namespace meshwork

#include "runtime/shape/block.h"

namespace meshwork {

Shape shape_of(const Block& block) {
  Shape shape;
  for (const Range& range : block) shape.push_back(range.length());
  return shape;
}

Block whole(const Shape& shape) {
  Block block;
  for (const std::int64_t length : shape) block.push_back({0, length});
  return block;
}

}  // namespace meshwork

// Synthetic images of bytes with the numbers of their classes: what tests train on.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/data/synthetic.h"

namespace meshwork::test {

/// "pixels", uint8 of `shape`, and "labels", of which class a linear function of them says.
inline std::shared_ptr<const Source> byte_images(std::int64_t rows, const Shape& shape,
                                                 std::int64_t classes, std::uint64_t seed) {
  return std::make_shared<SyntheticSource>(
      rows,
      std::vector<SyntheticField>{{.name = "pixels",
                                   .shape = shape,
                                   .type = ElementType::uint8,
                                   .role = FieldRole::feature,
                                   .kind = SyntheticKind::uniform,
                                   .low = 0,
                                   .high = 255},
                                  {.name = "labels",
                                   .type = ElementType::uint8,
                                   .role = FieldRole::target,
                                   .kind = SyntheticKind::linear_classes,
                                   .classes = classes}},
      seed);
}

}  // namespace meshwork::test

// Where an element of an image stands: (image, row, column, channel) of an offset, channels last.
#pragma once

#include <cstdint>

#include "runtime/device/host_device.h"

namespace meshwork::cuda {

struct ImageIndex {
  std::int64_t image, row, column, channel;
};

[[nodiscard]] MESHWORK_HOST_DEVICE inline ImageIndex image_index(std::int64_t offset,
                                                                 std::int64_t rows,
                                                                 std::int64_t columns,
                                                                 std::int64_t channels) {
  const std::int64_t pixel = offset / channels, line = pixel / columns;
  return {line / rows, line % rows, pixel % columns, offset % channels};
}

}  // namespace meshwork::cuda

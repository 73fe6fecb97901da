// Boxes to copy as a table for the device, and the arithmetic that finds an element in it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/device/host_device.h"
#include "runtime/device/kernels/copies.h"

namespace meshwork::cuda {

/// One box: elements [first, first + count()) of its launch.
struct CopyEntry {
  static constexpr int most_dimensions = 8;
  std::int64_t first;
  std::int64_t source_offset, destination_offset;
  std::int64_t extents[most_dimensions];
  std::int64_t source_strides[most_dimensions], destination_strides[most_dimensions];
  std::int32_t dimensions;
  std::int32_t add;

  [[nodiscard]] std::int64_t count() const {
    std::int64_t product = 1;
    for (int d = 0; d < dimensions; ++d) product *= extents[d];
    return product;
  }
};

/// Where element `index` of a box lies.
struct CopyPlace {
  std::int64_t source, destination;
};
[[nodiscard]] MESHWORK_HOST_DEVICE inline CopyPlace place_of(const CopyEntry& entry,
                                                             std::int64_t index) {
  CopyPlace place{entry.source_offset, entry.destination_offset};
  for (int d = entry.dimensions; d-- > 1;) {
    const std::int64_t i = index % entry.extents[d];
    index /= entry.extents[d];
    place.source += i * entry.source_strides[d];
    place.destination += i * entry.destination_strides[d];
  }
  place.source += index * entry.source_strides[0];
  place.destination += index * entry.destination_strides[0];
  return place;
}

/// The entry that element `index` of a launch belongs to: the last one whose `first` is not above.
[[nodiscard]] MESHWORK_HOST_DEVICE inline int entry_of(const CopyEntry* entries, int count,
                                                       std::int64_t index) {
  int low = 0, high = count;
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    if (entries[middle].first <= index) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

/// Entries [first, first + count) at once.
struct CopyLaunch {
  std::int64_t first;
  int count;
  std::int64_t elements;
};

struct CopyTable {
  std::vector<CopyEntry> entries;
  std::vector<CopyLaunch> launches;

  [[nodiscard]] bool adds() const;
  /// Whether it is one copy of neighbouring elements.
  [[nodiscard]] bool is_contiguous() const;
};

/// Regions that write to intervals apart from those before them, since the last one that did not,
/// share a launch; the others wait for it. Throws `Error` naming `name`, the kernel, for more
/// dimensions than a table has, after simplification.
[[nodiscard]] CopyTable copy_table(const CopySpec& spec, const std::string& name);

}  // namespace meshwork::cuda

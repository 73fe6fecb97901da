#include "runtime/device/cuda/copy_table.h"

#include <algorithm>

#include "collectives/error.h"
#include "runtime/device/copy_boxes.h"
#include "runtime/shape/partition.h"

namespace meshwork::cuda {

namespace {

/// The interval of the destination in which a box writes.
Range written(const CopyBox& box) {
  std::int64_t low = box.destination_offset, high = box.destination_offset;
  for (const CopyDimension& dimension : box.dimensions) {
    const std::int64_t reach = (dimension.extent - 1) * dimension.destination_stride;
    (reach < 0 ? low : high) += reach;
  }
  return {low, high + 1};
}

CopyEntry entry_of_box(const CopyBox& box, const std::string& name) {
  if (box.dimensions.size() > CopyEntry::most_dimensions) {
    fail("{}: a region has {} dimensions after simplification; the GPU's copies have {} at most",
         name, box.dimensions.size(), CopyEntry::most_dimensions);
  }
  CopyEntry entry{};
  entry.source_offset = box.source_offset;
  entry.destination_offset = box.destination_offset;
  entry.dimensions = static_cast<std::int32_t>(box.dimensions.size());
  entry.add = box.add ? 1 : 0;
  for (std::size_t d = 0; d < box.dimensions.size(); ++d) {
    entry.extents[d] = box.dimensions[d].extent;
    entry.source_strides[d] = box.dimensions[d].source_stride;
    entry.destination_strides[d] = box.dimensions[d].destination_stride;
  }
  return entry;
}

}  // namespace

bool CopyTable::adds() const {
  return std::any_of(entries.begin(), entries.end(),
                     [](const CopyEntry& entry) { return entry.add != 0; });
}

bool CopyTable::is_contiguous() const {
  return entries.size() == 1 && entries[0].add == 0 && entries[0].dimensions == 1 &&
         entries[0].source_strides[0] == 1 && entries[0].destination_strides[0] == 1;
}

CopyTable copy_table(const CopySpec& spec, const std::string& name) {
  CopyTable table;
  std::vector<Range> intervals;  // of the launch that is being filled
  for (const CopyBox& box : boxes_of(spec)) {
    const Range interval = written(box);
    const bool meets = std::any_of(intervals.begin(), intervals.end(), [&](const Range& other) {
      return interval.begin < other.end && other.begin < interval.end;
    });
    if (table.launches.empty() || meets) {
      table.launches.push_back({static_cast<std::int64_t>(table.entries.size()), 0, 0});
      intervals.clear();
    }
    CopyLaunch& launch = table.launches.back();
    CopyEntry entry = entry_of_box(box, name);
    entry.first = launch.elements;
    table.entries.push_back(entry);
    intervals.push_back(interval);
    launch.count += 1;
    launch.elements += box.count;
  }
  return table;
}

}  // namespace meshwork::cuda

#include "runtime/device/kernels/copies.h"

#include <algorithm>

#include "collectives/error.h"
#include "runtime/shape/shape.h"

namespace meshwork {

std::string CopySpec::text() const {
  std::int64_t count = 0;
  for (const CopyRegion& region : regions) count += element_count(region.extents);
  const bool adds = std::ranges::any_of(regions, &CopyRegion::add);
  return fmt::format("copy{} {} {} in {} region{}", adds ? " and add" : "", count, name_of(type),
                     regions.size(), regions.size() == 1 ? "" : "s");
}

KernelWork CopySpec::work() const {
  double accesses = 0;
  for (const CopyRegion& region : regions) {
    accesses += static_cast<double>(element_count(region.extents)) * (region.add ? 3 : 2);
  }
  return {0, accesses * static_cast<double>(element_bytes(type))};
}

void CopySpec::check() const {
  for (const CopyRegion& region : regions) {
    spec::require(region.source_strides.size() == region.extents.size() &&
                      region.destination_strides.size() == region.extents.size(),
                  text(), "has a region that has not one stride a dimension");
    spec::require(!region.add || type == ElementType::float32 || type == ElementType::float64,
                  text(), "adds what is no float");
  }
}

std::string GatherSpec::text() const {
  return spec::sized("gather", {rows, columns}) + " " + spec::converted(from, to, scale, offset);
}

KernelWork GatherSpec::work() const {
  const auto element = static_cast<double>(element_bytes(from) + element_bytes(to));
  return {0, spec::product({rows, columns}) * element + spec::f64 * static_cast<double>(rows)};
}

void GatherSpec::check() const {
  spec::require_convertible(text(), to, scale, offset);
}

}  // namespace meshwork

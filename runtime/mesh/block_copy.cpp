#include "runtime/mesh/block_copy.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "runtime/device/kernels/elementwise.h"

namespace meshwork {

CopyRegion copied_region(const Block& part, const Block& source, std::int64_t source_base,
                         const Block& destination, std::int64_t destination_base) {
  const std::vector<std::int64_t> from = strides_of(shape_of(source));
  const std::vector<std::int64_t> to = strides_of(shape_of(destination));
  CopyRegion region;
  region.source_offset = source_base + offset_of(part, source);
  region.destination_offset = destination_base + offset_of(part, destination);
  // Dimensions that join without a gap on both sides are one: fewer loops, longer runs.
  for (std::size_t dimension = 0; dimension < part.size(); ++dimension) {
    const std::int64_t length = part[dimension].length();
    if (length == 1) continue;
    if (!region.extents.empty() && region.source_strides.back() == length * from[dimension] &&
        region.destination_strides.back() == length * to[dimension]) {
      region.extents.back() *= length;
      region.source_strides.back() = from[dimension];
      region.destination_strides.back() = to[dimension];
    } else {
      region.extents.push_back(length);
      region.source_strides.push_back(from[dimension]);
      region.destination_strides.push_back(to[dimension]);
    }
  }
  if (region.extents.empty()) {
    region.extents = region.source_strides = region.destination_strides = {1};
  }
  return region;
}

Pieces::Pieces(const std::vector<Transfer>& transfers) {
  std::int64_t offset = 0;
  for (const Transfer& transfer : transfers) {
    parts.push_back(transfer.region);
    counts.push_back(size_of(transfer.region));
    offsets.push_back(std::exchange(offset, offset + counts.back()));
  }
}

Pieces::Pieces(const std::vector<Transfer>& transfers, const Block& block) : Pieces(transfers) {
  in_place = std::all_of(parts.begin(), parts.end(), [&](const Block& part) {
    return is_empty(part) || contiguous(part, block);
  });
  for (std::size_t i = 0; in_place && i < parts.size(); ++i) {
    offsets[i] = counts[i] == 0 ? 0 : offset_of(parts[i], block);
  }
}

std::int64_t Pieces::elements() const {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

Operand PieceBooking::scratch(std::int64_t elements, const std::string& what) {
  return builder_.scratch(elements * element_bytes(type_), purpose_.what + " " + what);
}

void PieceBooking::zero(const Block& block, Operand target) {
  builder_.emit(ZeroSpec{.bytes = size_of(block) * element_bytes(type_)}, {target},
                purpose_.what + " zero");
}

void PieceBooking::copy(std::vector<CopyRegion> regions, Operand source, Operand target,
                        const std::string& what) {
  std::erase_if(regions, [](const CopyRegion& region) {
    return std::count(region.extents.begin(), region.extents.end(), 0) > 0;
  });
  if (regions.empty()) return;
  builder_.emit(CopySpec{.type = type_, .regions = std::move(regions)}, {source, target},
                purpose_.what + " " + what);
}

Operand PieceBooking::packed(const Pieces& pieces, const Block& held, Operand source) {
  if (pieces.in_place) return source;
  std::vector<CopyRegion> regions;
  for (std::size_t i = 0; i < pieces.parts.size(); ++i) {
    regions.push_back(copied_region(pieces.parts[i], held, 0, pieces.parts[i], pieces.offsets[i]));
  }
  const Operand target = scratch(pieces.elements(), "packed");
  copy(std::move(regions), source, target, "packed");
  return target;
}

void PieceBooking::unpack(const Pieces& pieces, Operand received, const Block& block,
                          Operand target) {
  std::vector<CopyRegion> regions;
  for (std::size_t i = 0; i < pieces.parts.size(); ++i) {
    regions.push_back(copied_region(pieces.parts[i], pieces.parts[i], pieces.offsets[i], block, 0));
  }
  copy(std::move(regions), received, target, "unpacked");
}

Operand PieceBooking::within(const Block& part, const Block& block, Operand source) const {
  return source.after(is_empty(part) ? 0 : offset_of(part, block), type_);
}

}  // namespace meshwork

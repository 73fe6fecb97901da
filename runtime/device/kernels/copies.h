// Moving what stands in memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/element_type.h"
#include "runtime/device/kernels/page.h"

namespace meshwork {

/// One box of elements to copy: `extents` elements by dimension, from and to offsets and strides
/// (all in elements; the innermost strides need not be 1). With `add` they are added to what stands
/// at the destination (float32 and float64).
struct CopyRegion {
  std::vector<std::int64_t> extents;
  std::int64_t source_offset = 0, destination_offset = 0;
  std::vector<std::int64_t> source_strides, destination_strides;
  bool add = false;
};

/// Copies, or adds, each region in turn. Operands: source, destination.
struct CopySpec {
  ElementType type = ElementType::float32;
  std::vector<CopyRegion> regions;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] KernelWork work() const;
  void check() const;
};

/// y (rows, columns) = rows of a table (any number, columns) of `from`, converted as ConvertSpec
/// does: row i is row rows[i] of the table. Where the table begins is read in the device's
/// memory when the kernel runs, so that one kernel serves any table. Operands: the table's address
/// (const void*), rows (int64), y.
struct GatherSpec {
  std::int64_t rows = 0, columns = 0;
  ElementType from = ElementType::uint8;
  float scale = 1, offset = 0;
  ElementType to = ElementType::float32;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] KernelWork work() const;
  void check() const;
};

}  // namespace meshwork

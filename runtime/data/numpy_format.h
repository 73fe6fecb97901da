// The header of NumPy's format for an array, of npy files and of the members of npz files:
//
//   bytes 0 to 5   \x93NUMPY
//   bytes 6, 7     version: 1.0, 2.0 or 3.0
//   2 or 4 bytes   length of what follows, little-endian: 2 in version 1.0
//   text           {'descr': '<f4', 'fortran_order': False, 'shape': (100, 28, 28), }
//   then           the elements
//
// The text is a literal of Python, of which just what NumPy writes is read: these three keys, in any
// order. Elements have to be numbers, row-major and little-endian:
//
//   bool, 8-bit integers without sign            uint8
//   other integers that int32 can hold           int32
//   32-bit integers without sign, 64-bit ones    int64; without sign they are refused
//   floating point of 16, 32 and 64 bits         float32; of 64 bits, exact: float64
//
// (numpy/lib/format.py is the definition.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "collectives/element_type.h"
#include "runtime/data/sample_copy.h"
#include "runtime/shape/shape.h"

namespace meshwork {

struct NumpyHeader {
  Shape shape;
  std::string dtype;                        // as NumPy writes it: "<f4"
  ElementType type = ElementType::float32;  // of samples
  StoredElements elements;
  std::int64_t bytes = 0;       // of the header
  std::int64_t data_bytes = 0;  // of the elements as stored
  bool operator==(const NumpyHeader& other) const {
    return shape == other.shape && dtype == other.dtype && bytes == other.bytes;
  }
};

/// Reads a header. `read(destination, bytes)` gives the next bytes, fewer where they end. Throws
/// `Error` that begins with `subject`, the file: for what is no header, for elements that are not
/// read, and for more of them than any memory has. Elements that are `exact` are not rounded.
[[nodiscard]] NumpyHeader read_numpy_header(
    const std::function<std::int64_t(std::byte*, std::int64_t)>& read, const std::string& subject,
    bool exact);

}  // namespace meshwork

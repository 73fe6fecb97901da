// What the tests of NumPy's files share: arrays as NumPy writes them, and NumPy itself.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/runtime/data/support.h"
#include "tests/support/catch.h"

namespace meshwork::test {

/// The bytes of a npy file: `header` is its text, as "{'descr': '<f4', ...}".
inline std::string npy_bytes(const std::string& header, const std::string& elements,
                             int major = 1) {
  std::string bytes = std::string("\x93NUMPY") + static_cast<char>(major) + '\0';
  const auto length = static_cast<std::uint32_t>(header.size());
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) {
    bytes += static_cast<char>(length >> (8 * i));
  }
  return bytes + header + elements;
}

inline std::string npy_header(const std::string& descr, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
}

template <class T>
std::string elements_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// Whether Debian's Python has NumPy; says so where it has not.
inline bool has_numpy() {
  static const bool there = std::system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") == 0;
  if (!there) WARN("SKIPPED: /usr/bin/python3 has no NumPy");
  return there;
}

/// Runs `program` with NumPy imported.
inline void run_numpy(const std::string& program) {
  write_file("program.py", "import numpy\n" + program);
  REQUIRE(std::system("/usr/bin/python3 program.py") == 0);
}

}  // namespace meshwork::test

// What this build is made of, for `meshwork --version`.
#pragma once

#include <string>

namespace meshwork {

/// "meshwork 0.1.0", then compiler, MPI, HDF5 and oneDNN with their versions, and the processors that
/// the library runs on, a line each. Needs no running MPI.
[[nodiscard]] std::string version_text();

}  // namespace meshwork

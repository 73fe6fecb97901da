#include "launch/version.h"

#include <fmt/format.h>
#include <hdf5.h>
#include <mpi.h>
#include <oneapi/dnnl/dnnl.h>

#include <array>
#include <iterator>
#include <string_view>

#include "collectives/processor.h"

namespace meshwork {
namespace {

std::string compiler() {
#if defined(__clang__)
  return fmt::format("Clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#elif defined(__GNUC__)
  return fmt::format("GCC {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#else
  return "an unknown compiler";
#endif
}

// Its first line; some implementations go on for pages.
std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  if (MPI_Get_library_version(text.data(), &length) != MPI_SUCCESS) {
    return "an MPI that does not tell its version";
  }
  std::string line(text.data(), static_cast<std::size_t>(length));
  line = line.substr(0, line.find('\n'));
  return line.substr(0, line.find(','));
}

// The lowest level of x86-64 that the loaded library runs on (MESHWORK_LEVELS, CMakeLists.txt).
std::string_view processor() {
#if defined(__x86_64__)
  constexpr std::string_view names[] = {
#define MESHWORK_NAME(name, macro) name,
      MESHWORK_INSTRUCTION_SETS(MESHWORK_NAME)
#undef MESHWORK_NAME
  };
  const auto needs = [&names](std::string_view name) {
    for (std::size_t i = 0; i < std::size(names); ++i) {
      if (names[i] == name) return (required_instruction_sets >> i & 1) != 0;
    }
    return false;
  };
  if (needs("avx512f")) return "x86-64-v4";
  if (needs("avx2")) return "x86-64-v3";
  return needs("sse4.2") ? "x86-64-v2" : "x86-64";
#else
  return "the one that it was compiled on";
#endif
}

}  // namespace

std::string version_text() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  const bool known = H5get_libversion(&major, &minor, &release) >= 0;
  const dnnl_version_t* dnnl = dnnl_version();
  return fmt::format(
      "meshwork {}\n"
      "  compiler  {}, {}\n"
      "  MPI       {} (built for MPI {}.{})\n"
      "  HDF5      {}\n"
      "  oneDNN    {}.{}.{}\n"
      "  processor {} or later",
      MESHWORK_VERSION, compiler(), MESHWORK_BUILD_TYPE, mpi_library(), MPI_VERSION, MPI_SUBVERSION,
      known ? fmt::format("{}.{}.{}", major, minor, release) : "of an unknown version", dnnl->major,
      dnnl->minor, dnnl->patch, processor());
}

}  // namespace meshwork

#include "runtime/checkpoint/mpi_io.h"

#include <mpi.h>
#include <semaphore.h>

#include <array>
#include <filesystem>
#include <optional>

#include "collectives/error.h"

namespace meshwork {
namespace {

// The tool interface, for the life of the object.
class MpiTools {
 public:
  MpiTools() {
    int level = 0;
    check_mpi(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &level), "MPI_T_init_thread");
  }
  ~MpiTools() { MPI_T_finalize(); }
  MpiTools(const MpiTools&) = delete;
  MpiTools& operator=(const MpiTools&) = delete;

  // The value of a text variable; none if this MPI does not have it.
  std::optional<std::string> text(const char* name) const {
    int index = 0;
    if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS) {
      return std::nullopt;
    }
    MPI_T_cvar_handle handle{};
    int count = 0;
    if (MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) != MPI_SUCCESS) {
      return std::nullopt;
    }
    std::string value(static_cast<std::size_t>(count) + 1, '\0');
    const int status = MPI_T_cvar_read(handle, value.data());
    MPI_T_cvar_handle_free(&handle);
    if (status != MPI_SUCCESS) {
      return std::nullopt;
    }
    return value.c_str();
  }
};

MpiIo ask_mpi() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING + 1> version{};
  int length = 0;
  check_mpi(MPI_Get_library_version(version.data(), &length), "MPI_Get_library_version");
  std::string library(version.data());
  library.resize(std::min(library.find_first_of(",\n"), library.size()));
  const MpiTools tools;
  const std::optional<std::string> fcoll = tools.text("fcoll");
  if (!fcoll) {
    return {library, true, true};
  }
  const std::string io = tools.text("io").value_or("");
  MpiIo found;
  found.description = fmt::format("{}, io {}, fcoll {}", library, io.empty() ? "default" : io,
                                  fcoll->empty() ? "default" : *fcoll);
  // A list that begins with ^ is of those that are not to be used.
  const bool names_vulcan = fcoll->find("vulcan") != std::string::npos;
  const bool excludes = fcoll->starts_with('^');
  const bool romio = io.starts_with("romio");
  found.trusted = romio || (!fcoll->empty() && names_vulcan == excludes);
  found.collectives_tell = romio || *fcoll == "individual";
  return found;
}

}  // namespace

const MpiIo& find_mpi_io() {
  static const MpiIo found = ask_mpi();
  return found;
}

void forget_killed_openings(const std::string& file) {
  // It is as a rule not there, and where it cannot be removed there is nothing else to do.
  (void)::sem_unlink(("/OMPIO_" + std::filesystem::path(file).filename().string()).c_str());
}

}  // namespace meshwork

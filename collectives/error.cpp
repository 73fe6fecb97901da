#include "collectives/error.h"

#include <mpi.h>

#include <array>

#include "collectives/processor.h"

namespace meshwork {

namespace {

/// Whoever links this archive needs errors, and gets the comparison of processors with them.
[[gnu::used]] const bool* const compared = &processor_was_compared;

/// The file's name without its folders, which say where the program was compiled and nothing more.
std::string_view file_of(const std::source_location& where) {
  const std::string_view path = where.file_name();
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

}  // namespace

void rethrow_from(std::string_view where) {
  try {
    throw;
  } catch (const RanksParted& parted) {
    throw RanksParted(fmt::format("{}: {}", where, parted.what()));
  } catch (const std::exception& error) {
    throw Error(fmt::format("{}: {}", where, error.what()));
  }
}

std::string message_of(const std::exception& error) {
  const bool memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  return memory ? "there is not enough memory" : error.what();
}

void error_detail::fail_with(fmt::string_view format, fmt::format_args arguments) {
  throw Error(fmt::vformat(format, arguments));
}

void internal_error(std::string_view what, std::source_location where) {
  fail("{} ({}:{}); this is a mistake in Meshwork, please report it", what, file_of(where),
       where.line());
}

void check_mpi(int code, std::string_view operation, std::source_location where) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) length = 0;
  const std::string_view words(text.data(), static_cast<std::size_t>(length));
  fail("{} failed: {} ({}:{})", operation,
       words.empty() ? fmt::format("MPI error code {}", code) : std::string(words), file_of(where),
       where.line());
}

}  // namespace meshwork

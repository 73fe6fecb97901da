#include "runtime/checkpoint/directory_lock.h"

#include "collectives/failed_write.h"
#include "collectives/path_text.h"

namespace meshwork {
namespace {

constexpr const char* lock_name = ".lock";

}  // namespace

DirectoryLock::DirectoryLock(const std::filesystem::path& directory,
                             std::chrono::seconds patience) try
    : lock_(directory / lock_name, patience, OwnerLock::Afterwards::keep) {
} catch (const HeldByOther& other) {
  throw FailedWrite(fmt::format(
      "checkpoint directory {} belongs to another run, {}: wait for its end, or give this run "
      "another directory",
      directory, other.what()));
}

}  // namespace meshwork

// The way back from a checkpoint file to what it holds; format.h says how that stands in it.
//
// Everything but the data of tensors is read and compared with its checksum: first the table of
// checksums, which has one of its own, then the structure of the file (structure.h), the state and
// the list of tensors.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/checkpoint/contents.h"
#include "runtime/checkpoint/hdf5_values.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/data/hdf5_handles.h"

namespace meshwork {

struct ParsedCheckpoint {
  std::int64_t version = 0;
  CheckpointState state;
  std::vector<CheckpointTensor> tensors;  // variables in the order of their paths, then slots, ...
  std::vector<StoredRegion> regions;
};

/// Whether the file says that it is a checkpoint. Throws `Error` if it cannot say. Under a guard.
[[nodiscard]] bool is_checkpoint(const Hdf5File& file, const std::string& name);

/// Reads `file`, whose name is `name`. Throws as the constructor of CheckpointReader.
[[nodiscard]] ParsedCheckpoint parse_checkpoint(const Hdf5File& file, const std::string& name);

/// Hands on what `action` throws over the content of the file `name` as damage of it; what comes
/// from elsewhere (`SystemFailure`, `Unreachable`) stays what it is. Memory that is not to be had
/// is a `SystemFailure`.
template <class Action>
decltype(auto) or_damaged(const std::string& name, Action&& action) {
  try {
    return std::forward<Action>(action)();
  } catch (const DamagedCheckpoint&) {
    throw;
  } catch (const SystemFailure&) {
    throw;
  } catch (const Unreachable&) {
    throw;
  } catch (const Error& error) {
    throw DamagedCheckpoint(error.what());
  } catch (const std::logic_error& error) {  // names and lengths that cannot be
    throw DamagedCheckpoint(fmt::format("{}: cannot be read: {}", name, error.what()));
  } catch (const std::bad_alloc&) {
    throw SystemFailure(fmt::format("{}: there is not enough memory to read it", name));
  }
}

}  // namespace meshwork

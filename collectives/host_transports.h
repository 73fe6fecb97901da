// Which backends there are, and those for the host's memory.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "collectives/communicator.h"
#include "collectives/transport.h"

namespace meshwork {

/// A transport by the name that `make_transport` takes.
struct NamedTransport {
  const char* name;
  const char* class_name;  // as configurations may call it too
  const char* about;
  /// Null where it is for the memory of GPUs (device_transports.h). Every rank of `ranks` calls it.
  std::unique_ptr<Transport> (*make)(const Communicator& ranks);
};
/// All there are, "auto" first.
[[nodiscard]] std::span<const NamedTransport> named_transports();

/// The transport `name` for the host's memory. Every rank of `ranks` calls it. Throws for the name of
/// one that is for the memory of GPUs, and for any other name, naming all that there are.
[[nodiscard]] std::unique_ptr<Transport> make_host_transport(std::string_view name,
                                                             const Communicator& ranks);

}  // namespace meshwork

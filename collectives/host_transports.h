// Which backends there are for the host's memory.
#pragma once

#include <memory>
#include <string_view>

#include "collectives/communicator.h"
#include "collectives/transport.h"

namespace meshwork {

/// "mpi", "shared", "hierarchical", or what "auto" takes of them (make_transport). Every rank of
/// `ranks` calls it. Throws for any other name, naming all that there are.
[[nodiscard]] std::unique_ptr<Transport> make_host_transport(std::string_view name,
                                                             const Communicator& ranks);

}  // namespace meshwork

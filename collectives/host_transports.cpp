#include "collectives/host_transports.h"

#include <fmt/ranges.h>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/hierarchical_transport.h"
#include "collectives/mpi_transport.h"
#include "collectives/nodes.h"
#include "collectives/shared_transport.h"

namespace meshwork {

namespace {

/// What `make_transport` says of "auto".
std::unique_ptr<Transport> best_transport(const Communicator& ranks) {
  const auto nodes = std::make_shared<const Nodes>(ranks);
  const int most = nodes->most_together(ranks);
  if (most == 1) return make_mpi_transport({.nodes = nodes});
  std::unique_ptr<Transport> made;
  try {
    together(ranks, [&] {
      made = most == ranks.size() ? make_shared_transport(ranks, {.nodes = nodes})
                                  : make_hierarchical_transport(ranks, {.nodes = nodes});
    });
  } catch (const Error&) {
    return make_mpi_transport({.nodes = nodes});  // somewhere memory cannot be shared
  }
  return made;
}

}  // namespace

std::unique_ptr<Transport> make_host_transport(std::string_view name, const Communicator& ranks) {
  if (name == "auto") return best_transport(ranks);
  if (name == "hierarchical") return make_hierarchical_transport(ranks);
  if (name == "mpi") return make_mpi_transport({.nodes = std::make_shared<const Nodes>(ranks)});
  if (name == "shared") {
    // Before anything is made with it: here it is known whose wish it was.
    const auto nodes = std::make_shared<const Nodes>(ranks);
    require_one_node(ranks, *nodes);
    return make_shared_transport(ranks, {.nodes = nodes});
  }
  fail("there is no transport \"{}\"; there are: {}", name, fmt::join(transport_names(), ", "));
}

}  // namespace meshwork

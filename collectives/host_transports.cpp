#include "collectives/host_transports.h"

#include <algorithm>
#include <iterator>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/hierarchical_transport.h"
#include "collectives/joined_text.h"
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

std::unique_ptr<Transport> make_mpi(const Communicator& ranks) {
  return make_mpi_transport({.nodes = std::make_shared<const Nodes>(ranks)});
}

std::unique_ptr<Transport> make_shared_if_one_node(const Communicator& ranks) {
  // Before anything is made with it: here it is known whose wish it was.
  const auto nodes = std::make_shared<const Nodes>(ranks);
  require_one_node(ranks, *nodes);
  return make_shared_transport(ranks, {.nodes = nodes});
}

constexpr NamedTransport transports[] = {
    {"auto", "Auto", "the fastest that all ranks can use", best_transport},
    {"cuda_aware_mpi", "CudaAwareMPI", "GPU memory, through a CUDA-aware MPI", nullptr},
    {"hierarchical", "Hierarchical", "shared memory inside nodes, MPI between them",
     [](const Communicator& ranks) -> std::unique_ptr<Transport> {
       return make_hierarchical_transport(ranks);
     }},
    {"mpi", "MPI", "MPI everywhere", make_mpi},
    {"nccl", "NCCL", "GPU memory, with one GPU per rank", nullptr},
    {"shared", "Shared", "memory that the ranks of one node share", make_shared_if_one_node}};

}  // namespace

std::span<const NamedTransport> named_transports() {
  return transports;
}

std::unique_ptr<Transport> make_host_transport(std::string_view name, const Communicator& ranks) {
  const auto* const found = std::ranges::find(transports, name, &NamedTransport::name);
  if (found == std::end(transports)) {
    fail("there is no transport \"{}\"; there are: {}", name, joined_text(transport_names(), ", "));
  }
  if (found->make == nullptr) {
    fail(
        "the transport \"{}\" is for the memory of GPUs, and this run computes on the CPU; "
        "\"auto\" takes the best for that",
        name);
  }
  return found->make(ranks);
}

}  // namespace meshwork

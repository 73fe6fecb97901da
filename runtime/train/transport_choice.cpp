#include "runtime/train/transport_choice.h"

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/staged_transport.h"
#include "runtime/config/options.h"

namespace meshwork {

namespace {

struct NoTransportOptions {};
template <class Visitor>
void describe(NoTransportOptions&, Visitor&) {}

}  // namespace

std::unique_ptr<Transport> TransportChoice::make(const Communicator& ranks, DeviceQueues* device,
                                                 const DeviceMemory& device_memory) const {
  if (!make_) return make_transport(name_, ranks, device, device_memory);
  std::unique_ptr<Transport> made;
  together(ranks, [&] {
    made = make_(ranks);
    if (made == nullptr) fail("{} has made no transport", name_);
  });
  if (device == nullptr) return made;
  return make_staged_transport(std::move(made), *device);
}

std::string TransportChoice::name_of(const Transport& made) const {
  return make_ ? name_ : std::string(made.name());
}

void add_transports(Catalog& catalog) {
  const auto add = [&](const char* class_name, const char* name, const char* about) {
    catalog.add<TransportChoice, NoTransportOptions>(
        class_name, {name}, [name](const NoTransportOptions&) { return TransportChoice(name); }, {},
        about);
  };
  add("Auto", "auto", "the fastest that all ranks can use");
  add("CudaAwareMPI", "cuda_aware_mpi", "memory of GPUs, by an MPI that takes its addresses");
  add("Hierarchical", "hierarchical", "shared memory inside nodes, MPI between them");
  add("MPI", "mpi", "MPI everywhere");
  add("NCCL", "nccl", "memory of GPUs, one GPU a rank");
  add("Shared", "shared", "memory that the ranks of one node share");
}

}  // namespace meshwork

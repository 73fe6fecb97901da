#include "runtime/train/transport_choice.h"

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/host_transports.h"
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
    try {
      made = make_(ranks);
    } catch (...) {
      rethrow_from(name_);
    }
    if (made == nullptr) fail("{} has made no transport", name_);
  });
  if (device == nullptr) return made;
  return make_staged_transport(std::move(made), *device);
}

std::string TransportChoice::name_of(const Transport& made) const {
  return make_ ? name_ : std::string(made.name());
}

void add_transports(Catalog& catalog) {
  for (const NamedTransport& one : named_transports()) {
    catalog.add<TransportChoice, NoTransportOptions>(
        one.class_name, {one.name},
        [name = one.name](const NoTransportOptions&) { return TransportChoice(name); }, {},
        one.about);
  }
}

}  // namespace meshwork

// TransportChoice: which transport the ranks of a model talk by (collectives/transport.h).
//
//     collectives: shared
//     collectives: {RingAllReduce: {least_bytes: 65536}}
//
// A transport is a class of the catalog. Those that Meshwork has take no options, and their short names
// are those of `make_transport`, by which C++ names them too. One of one's own is a page of an
// extension:
//
//     add_transport<RingOptions>(
//         catalog, "RingAllReduce", [](const RingOptions& options, const Communicator& ranks) {
//           return std::make_unique<Ring>(options, make_transport("mpi", ranks));
//         });
//
// Such a transport is for the host's memory. Where a device has memory of its own, what is sent is
// staged in front of it. Counting, the watchdog and the comparison between ranks are as for all others.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/transport.h"
#include "runtime/config/catalog.h"

namespace meshwork {

class TransportChoice {
 public:
  /// Makes a transport of one's own for `ranks`, which all call it.
  using Make = std::function<std::unique_ptr<Transport>(const Communicator& ranks)>;

  /// As `make_transport` calls it.
  TransportChoice(std::string name) : name_(std::move(name)) {}  // NOLINT: names are choices
  TransportChoice(const char* name) : TransportChoice(std::string(name)) {}  // NOLINT: likewise
  /// `name` tells it from others: its class and what else its results depend on.
  TransportChoice(std::string name, Make make) : name_(std::move(name)), make_(std::move(make)) {}

  [[nodiscard]] const std::string& name() const { return name_; }
  /// The transport, as `make_transport` makes it. Throws `Error` on all ranks if one cannot make it.
  [[nodiscard]] std::unique_ptr<Transport> make(const Communicator& ranks, DeviceQueues* device,
                                                const DeviceMemory& device_memory) const;
  /// What checkpoints call `made`, which `make` has made: of one's own the choice's name.
  [[nodiscard]] std::string name_of(const Transport& made) const;

 private:
  std::string name_;
  Make make_;  // null: `make_transport`
};

template <>
struct KindOf<TransportChoice> {
  static constexpr const char* word = "transport";
  static constexpr const char* article = "a transport, such as shared";
};
[[nodiscard]] inline std::string to_text(const TransportChoice& choice) {
  return choice.name();
}

/// Enters a transport of one's own, for the host's memory: `make(options, ranks)`, which every rank of
/// `ranks` calls. What it throws on one rank is thrown on all.
template <class Options, class Make>
void add_transport(Catalog& catalog, const std::string& class_name, Make make,
                   const Options& initial = {}) {
  catalog.add<TransportChoice, Options>(
      class_name, {},
      [class_name, make = std::move(make)](const Options& options) {
        const std::string words = words_of(settings_of(options));
        return TransportChoice(
            words.empty() ? class_name : class_name + " of " + words,
            [make, options](const Communicator& ranks) { return make(options, ranks); });
      },
      initial);
}

}  // namespace meshwork

#include "collectives/counting.h"

#include <algorithm>
#include <tuple>

#include "collectives/blocks.h"
#include "collectives/error.h"

namespace meshwork {

std::string_view name_of(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
      return "all_reduce";
    case Collective::reduce_scatter:
      return "reduce_scatter";
    case Collective::all_gather:
      return "all_gather";
    case Collective::all_to_all:
      return "all_to_all";
    case Collective::exchange:
      return "exchange";
    case Collective::broadcast:
      return "broadcast";
  }
  internal_error("a collective without a name");
}

void CountingTransport::count(Collective collective, const Communicator& communicator,
                              std::int64_t elements_sent, ElementType type) {
  const auto place = [](const Traffic& entry) { return std::tuple(entry.collective, entry.ranks); };
  Traffic added{.collective = collective, .ranks = communicator.size()};
  auto entry = std::lower_bound(
      traffic_.begin(), traffic_.end(), added,
      [&](const Traffic& left, const Traffic& right) { return place(left) < place(right); });
  if (entry == traffic_.end() || place(*entry) != place(added)) {
    entry = traffic_.insert(entry, added);
  }
  entry->operations += 1;
  entry->bytes += elements_sent * element_bytes(type);
}

std::int64_t CountingTransport::bytes() const {
  std::int64_t total = 0;
  for (const Traffic& entry : traffic_) total += entry.bytes;
  return total;
}

std::int64_t CountingTransport::operations() const {
  std::int64_t total = 0;
  for (const Traffic& entry : traffic_) total += entry.operations;
  return total;
}

void CountingTransport::count_all_reduce(const Communicator& communicator, std::int64_t elements,
                                         ElementType type) {
  count(Collective::all_reduce, communicator,
        elements_sent_by_all_reduce(elements, communicator.size()), type);
}

void CountingTransport::all_reduce(const Communicator& communicator, ElementType type,
                                   Reduction reduction, void* buffer, std::int64_t elements) {
  inner().all_reduce(communicator, type, reduction, buffer, elements);
  count_all_reduce(communicator, elements, type);
}

Pending CountingTransport::start_all_reduce(const Communicator& communicator, ElementType type,
                                            Reduction reduction, void* buffer,
                                            std::int64_t elements) {
  Pending pending = inner().start_all_reduce(communicator, type, reduction, buffer, elements);
  count_all_reduce(communicator, elements, type);
  return pending;
}

Pending CountingTransport::start_reduce_in_parts(const Communicator& communicator, ElementType type,
                                                 Reduction reduction, void* buffer,
                                                 std::int64_t elements) {
  Pending pending = inner().start_reduce_in_parts(communicator, type, reduction, buffer, elements);
  count_all_reduce(communicator, elements, type);
  return pending;
}

void CountingTransport::reduce_scatter(const Communicator& communicator, ElementType type,
                                       const void* send, void* receive,
                                       std::span<const std::int64_t> counts) {
  inner().reduce_scatter(communicator, type, send, receive, counts);
  count(Collective::reduce_scatter, communicator,
        elements_sent_once(total_of(counts), communicator.size()), type);
}

void CountingTransport::all_gather(const Communicator& communicator, ElementType type,
                                   const void* send, void* receive,
                                   std::span<const std::int64_t> counts,
                                   std::span<const std::int64_t> offsets) {
  inner().all_gather(communicator, type, send, receive, counts, offsets);
  count(Collective::all_gather, communicator,
        elements_sent_once(total_of(counts), communicator.size()), type);
}

void CountingTransport::all_to_all(const Communicator& communicator, ElementType type,
                                   const void* send, std::span<const std::int64_t> send_counts,
                                   std::span<const std::int64_t> send_offsets, void* receive,
                                   std::span<const std::int64_t> receive_counts,
                                   std::span<const std::int64_t> receive_offsets) {
  inner().all_to_all(communicator, type, send, send_counts, send_offsets, receive, receive_counts,
                     receive_offsets);
  const std::size_t own = static_cast<std::size_t>(communicator.rank());
  count(Collective::all_to_all, communicator, total_of(send_counts) - send_counts[own], type);
}

void CountingTransport::exchange(const Communicator& communicator, ElementType type,
                                 const void* send, std::span<const NeighbourBlock> sends,
                                 void* receive, std::span<const NeighbourBlock> receives) {
  inner().exchange(communicator, type, send, sends, receive, receives);
  std::int64_t sent = 0;
  for (const NeighbourBlock& block : sends) sent += block.count;
  count(Collective::exchange, communicator, sent, type);
}

void CountingTransport::broadcast(const Communicator& communicator, ElementType type, void* buffer,
                                  std::int64_t elements, int root) {
  inner().broadcast(communicator, type, buffer, elements, root);
  const bool sends = communicator.size() > 1 && communicator.rank() == root;
  count(Collective::broadcast, communicator, sends ? elements : 0, type);
}

}  // namespace meshwork

#include "collectives/collective.h"

#include <algorithm>
#include <exception>

#include "collectives/blocks.h"
#include "collectives/error.h"
#include "collectives/hosted.h"

namespace meshwork {

namespace {

template <class... Cases>
struct Of : Cases... {
  using Cases::operator()...;
};

void check_blocks(const Communicator& communicator, std::initializer_list<Counts> lists) {
  for (const Counts values : lists) {
    if (std::ssize(values) != communicator.size()) {
      internal_error(fmt::format("{} blocks were given to a collective of {} ranks", values.size(),
                                 communicator.size()));
    }
  }
}

void check_neighbours(const Communicator& communicator, const std::vector<NeighbourBlock>& blocks) {
  for (const NeighbourBlock& block : blocks) {
    if (block.rank < 0 || block.rank >= communicator.size() || block.rank == communicator.rank()) {
      internal_error(fmt::format("rank {} of {} exchanges with rank {}", communicator.rank(),
                                 communicator.size(), block.rank));
    }
  }
}

}  // namespace

std::int64_t part_begin(std::int64_t count, int part, int parts, ElementType type) {
  if (part == parts) return count;
  const std::int64_t line = 64 / element_bytes(type);
  return count / parts * part / line * line;
}

std::string_view name_of(const Collective& collective) {
  return std::visit([](const auto& one) { return one.name; }, collective);
}

std::string_view name_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return "sum";
    case Reduction::maximum:
      return "maximum";
    case Reduction::minimum:
      return "minimum";
  }
  internal_error("a reduction without a name");
}

ElementType type_of(const Collective& collective) {
  return std::visit([](const auto& one) { return one.type; }, collective);
}

const Reduction* reduction_of(const Collective& collective) {
  static constexpr Reduction sum = Reduction::sum;
  if (const auto* const one = std::get_if<AllReduce>(&collective)) return &one->reduction;
  return std::holds_alternative<ReduceScatter>(collective) ? &sum : nullptr;
}

std::int64_t elements_sent(const Collective& collective, int rank, int ranks) {
  return std::visit(
      Of{[&](const AllReduce& one) { return elements_sent_by_all_reduce(one.count, ranks); },
         [&](const ReduceScatter& one) { return elements_sent_once(total_of(one.counts), ranks); },
         [&](const AllGather& one) { return elements_sent_once(total_of(one.counts), ranks); },
         [&](const AllToAll& one) {
           return total_of(one.send_counts) - one.send_counts[static_cast<std::size_t>(rank)];
         },
         [&](const Exchange& one) { return total_of(one.sends); },
         [&](const Broadcast& one) { return ranks > 1 && rank == one.root ? one.count : 0; }},
      collective);
}

Extents extents_of(const Collective& collective, int rank) {
  const auto own = static_cast<std::size_t>(rank);
  return std::visit(Of{[](const AllReduce& one) {
                         return Extents{0, one.count};
                       },
                       [&](const ReduceScatter& one) {
                         return Extents{total_of(one.counts), one.counts[own]};
                       },
                       [&](const AllGather& one) {
                         return Extents{one.counts[own], extent_of(one.counts, one.offsets)};
                       },
                       [](const AllToAll& one) {
                         return Extents{extent_of(one.send_counts, one.send_offsets),
                                        extent_of(one.receive_counts, one.receive_offsets)};
                       },
                       [](const Exchange& one) {
                         return Extents{extent_of(one.sends), extent_of(one.receives)};
                       },
                       [](const Broadcast& one) {
                         return Extents{0, one.count};
                       }},
                    collective);
}

bool is_in_place(const Collective& collective) {
  return std::holds_alternative<AllReduce>(collective) ||
         std::holds_alternative<Broadcast>(collective);
}

void check(const Collective& collective, const Communicator& communicator) {
  std::visit(Of{[](const AllReduce&) {}, [](const Broadcast&) {},
                [&](const ReduceScatter& one) { check_blocks(communicator, {one.counts}); },
                [&](const AllGather& one) {
                  check_blocks(communicator, {one.counts, one.offsets});
                },
                [&](const AllToAll& one) {
                  check_blocks(communicator, {one.send_counts, one.send_offsets, one.receive_counts,
                                              one.receive_offsets});
                  const auto own = static_cast<std::size_t>(communicator.rank());
                  if (one.send_counts[own] != one.receive_counts[own]) {
                    internal_error(fmt::format(
                        "an all-to-all sends {} elements to its own rank, which expects {}",
                        one.send_counts[own], one.receive_counts[own]));
                  }
                },
                [&](const Exchange& one) {
                  check_neighbours(communicator, one.sends);
                  check_neighbours(communicator, one.receives);
                }},
             collective);
}

Pending::Pending(std::shared_ptr<CompiledCollective> collective, const void* send, void* receive) {
  collective->start(send, receive);
  collective_ = std::move(collective);
}

Pending& Pending::operator=(Pending&& other) noexcept {
  if (this == &other) return *this;
  if (active()) {
    abort_or_break("a started collective was replaced before it was waited for");
  }
  collective_ = std::move(other.collective_);
  return *this;
}

Pending::~Pending() {
  if (!active()) return;
  abort_or_break(std::uncaught_exceptions() > 0
                     ? "an error ended the work between the start of a collective and its end"
                     : "a started collective was destroyed before it was waited for");
  // In a hosted job; MPI may still work on it.
  (void)new std::shared_ptr<CompiledCollective>(std::move(collective_));
}

void Pending::wait() {
  // Whether it succeeds or throws, it is over.
  if (const std::shared_ptr<CompiledCollective> collective = std::move(collective_)) {
    collective->wait();
  }
}

}  // namespace meshwork

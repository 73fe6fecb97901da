// A transport that counts: what was really sent, to compare with what was planned.
//
// It hands every operation on to another transport. Bytes are what this rank sends, as a
// bandwidth-optimal algorithm over n ranks sends them, which is the measure of plans too: an
// all-reduce of s elements sends 2 (n - 1) / n s, a reduce-scatter or all-gather of s elements in
// all blocks (n - 1) / n s, each rounded up to whole elements; an all-to-all or an exchange what
// goes to other ranks; a broadcast the whole, counted at its root.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/forwarding.h"

namespace meshwork {

enum class Collective : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  exchange,
  broadcast
};

[[nodiscard]] std::string_view name_of(Collective collective);

/// The operations of one kind over communicators of one size; started ones count as blocking ones.
struct Traffic {
  Collective collective = Collective::all_reduce;
  int ranks = 1;
  std::int64_t operations = 0;
  std::int64_t bytes = 0;  // sent by this rank
  bool operator==(const Traffic&) const = default;
};

class CountingTransport final : public ForwardingTransport {
 public:
  /// Counts what goes through `inner`, which outlives this object.
  explicit CountingTransport(Transport& inner) : ForwardingTransport(inner) {}

  /// What was counted, by collective, then by number of ranks. Operations over one rank are there,
  /// with no bytes.
  [[nodiscard]] const std::vector<Traffic>& traffic() const { return traffic_; }
  /// The bytes of all operations together.
  [[nodiscard]] std::int64_t bytes() const;
  /// The number of all operations together.
  [[nodiscard]] std::int64_t operations() const;
  /// Forgets what was counted.
  void clear() { traffic_.clear(); }

  /// What is to be counted is not captured, so that every operation comes by here.
  [[nodiscard]] bool enqueues(const Communicator& /*communicator*/, ElementType /*type*/,
                              Reduction /*reduction*/) const override {
    return false;
  }
  void all_reduce(const Communicator& communicator, ElementType type, Reduction reduction,
                  void* buffer, std::int64_t count) override;
  [[nodiscard]] Pending start_all_reduce(const Communicator& communicator, ElementType type,
                                         Reduction reduction, void* buffer,
                                         std::int64_t count) override;
  /// Counted as an all-reduce: what ranks make of their parts is read by all of them.
  [[nodiscard]] Pending start_reduce_in_parts(const Communicator& communicator, ElementType type,
                                              Reduction reduction, void* buffer,
                                              std::int64_t count) override;
  void reduce_scatter(const Communicator& communicator, ElementType type, const void* send,
                      void* receive, std::span<const std::int64_t> counts) override;
  void all_gather(const Communicator& communicator, ElementType type, const void* send,
                  void* receive, std::span<const std::int64_t> counts,
                  std::span<const std::int64_t> offsets) override;
  void all_to_all(const Communicator& communicator, ElementType type, const void* send,
                  std::span<const std::int64_t> send_counts,
                  std::span<const std::int64_t> send_offsets, void* receive,
                  std::span<const std::int64_t> receive_counts,
                  std::span<const std::int64_t> receive_offsets) override;
  void exchange(const Communicator& communicator, ElementType type, const void* send,
                std::span<const NeighbourBlock> sends, void* receive,
                std::span<const NeighbourBlock> receives) override;
  void broadcast(const Communicator& communicator, ElementType type, void* buffer,
                 std::int64_t count, int root) override;

 private:
  void count_all_reduce(const Communicator& communicator, std::int64_t elements, ElementType type);
  void count(Collective collective, const Communicator& communicator, std::int64_t elements_sent,
             ElementType type);

  std::vector<Traffic> traffic_;
};

}  // namespace meshwork

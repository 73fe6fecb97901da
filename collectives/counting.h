// A transport that counts: what was really sent, to compare with what was planned.
//
// It hands every operation on to another transport. Bytes are what this rank sends by
// `elements_sent` (collective.h), which is the measure of plans too.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "collectives/forwarding.h"

namespace meshwork {

/// The operations of one kind over communicators of one size; started ones count as blocking ones.
struct Traffic {
  std::string_view collective;  // as name_of has it
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

 protected:
  [[nodiscard]] Compiled make(const Communicator& communicator, const Collective& collective,
                              Use use) override;

 private:
  class Counted;
  void count(const Traffic& operation);

  std::vector<Traffic> traffic_;
};

}  // namespace meshwork

#include "collectives/counting.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace meshwork {

class CountingTransport::Counted final : public CompiledCollective {
 public:
  Counted(CountingTransport& transport, Traffic one, Compiled inner)
      : transport_(transport), one_(one), inner_(std::move(inner)) {}
  void start(const void* send, void* receive) override {
    inner_->start(send, receive);
    transport_.count(one_);
  }
  void wait() override { inner_->wait(); }
  [[nodiscard]] bool is_complete() const override { return inner_->is_complete(); }
  // What is to be counted is not captured, so that every operation comes by here: is_enqueued is not
  // handed on.

 private:
  CountingTransport& transport_;
  Traffic one_;
  Compiled inner_;
};

Compiled CountingTransport::make(const Communicator& communicator, const Collective& collective,
                                 Use use) {
  const int ranks = communicator.size();
  const std::int64_t sent = elements_sent(collective, communicator.rank(), ranks);
  return std::make_unique<Counted>(
      *this, Traffic{name_of(collective), ranks, 1, sent * element_bytes(type_of(collective))},
      inner().compile(communicator, collective, use));
}

void CountingTransport::count(const Traffic& operation) {
  const auto place = [](const Traffic& entry) { return std::tuple(entry.collective, entry.ranks); };
  auto entry = std::lower_bound(
      traffic_.begin(), traffic_.end(), operation,
      [&](const Traffic& left, const Traffic& right) { return place(left) < place(right); });
  if (entry == traffic_.end() || place(*entry) != place(operation)) {
    traffic_.insert(entry, operation);
    return;
  }
  entry->operations += operation.operations;
  entry->bytes += operation.bytes;
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

}  // namespace meshwork

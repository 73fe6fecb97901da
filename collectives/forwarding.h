// A transport that hands everything on to another one: what those do that differ in a few things
// from the one behind them derives from it.
#pragma once

#include "collectives/transport.h"

namespace meshwork {

class ForwardingTransport : public Transport {
 public:
  [[nodiscard]] std::string_view name() const override { return inner_->name(); }
  [[nodiscard]] std::string remark() const override { return inner_->remark(); }
  void prepare(const Communicator& communicator) override { inner_->prepare(communicator); }
  void prepare_sum(const Communicator& communicator,
                   std::span<const std::int64_t> counts) override {
    inner_->prepare_sum(communicator, counts);
  }
  void reserve(std::int64_t bytes, std::span<const std::int64_t> started) override {
    inner_->reserve(bytes, started);
  }
  [[nodiscard]] TransportMemory allocate(const Communicator& communicator,
                                         std::int64_t bytes) override {
    return inner_->allocate(communicator, bytes);
  }
  [[nodiscard]] bool shares_memory() const override { return inner_->shares_memory(); }
  [[nodiscard]] Sharers sharers(const Communicator& communicator) const override {
    return inner_->sharers(communicator);
  }
  void barrier_of_sharers(const Communicator& communicator) override {
    inner_->barrier_of_sharers(communicator);
  }
  void advance() override { inner_->advance(); }
  [[nodiscard]] bool wants_advancing() const override { return inner_->wants_advancing(); }
  [[nodiscard]] bool settle() override { return inner_->settle(); }
  void give_up() override { inner_->give_up(); }
  [[nodiscard]] bool take_up(std::string_view name) override { return inner_->take_up(name); }
  [[nodiscard]] bool enqueues(const Communicator& communicator, ElementType type,
                              Reduction reduction) const override {
    return inner_->enqueues(communicator, type, reduction);
  }
  [[nodiscard]] Enqueued* enqueued() override { return inner_->enqueued(); }

  void all_reduce(const Communicator& communicator, ElementType type, Reduction reduction,
                  void* buffer, std::int64_t count) override {
    inner_->all_reduce(communicator, type, reduction, buffer, count);
  }
  [[nodiscard]] Pending start_all_reduce(const Communicator& communicator, ElementType type,
                                         Reduction reduction, void* buffer,
                                         std::int64_t count) override {
    return inner_->start_all_reduce(communicator, type, reduction, buffer, count);
  }
  [[nodiscard]] Pending start_reduce_in_parts(const Communicator& communicator, ElementType type,
                                              Reduction reduction, void* buffer,
                                              std::int64_t count) override {
    return inner_->start_reduce_in_parts(communicator, type, reduction, buffer, count);
  }
  void reduce_scatter(const Communicator& communicator, ElementType type, const void* send,
                      void* receive, std::span<const std::int64_t> counts) override {
    inner_->reduce_scatter(communicator, type, send, receive, counts);
  }
  void all_gather(const Communicator& communicator, ElementType type, const void* send,
                  void* receive, std::span<const std::int64_t> counts,
                  std::span<const std::int64_t> offsets) override {
    inner_->all_gather(communicator, type, send, receive, counts, offsets);
  }
  void all_to_all(const Communicator& communicator, ElementType type, const void* send,
                  std::span<const std::int64_t> send_counts,
                  std::span<const std::int64_t> send_offsets, void* receive,
                  std::span<const std::int64_t> receive_counts,
                  std::span<const std::int64_t> receive_offsets) override {
    inner_->all_to_all(communicator, type, send, send_counts, send_offsets, receive, receive_counts,
                       receive_offsets);
  }
  void exchange(const Communicator& communicator, ElementType type, const void* send,
                std::span<const NeighbourBlock> sends, void* receive,
                std::span<const NeighbourBlock> receives) override {
    inner_->exchange(communicator, type, send, sends, receive, receives);
  }
  void broadcast(const Communicator& communicator, ElementType type, void* buffer,
                 std::int64_t count, int root) override {
    inner_->broadcast(communicator, type, buffer, count, root);
  }

 protected:
  /// `inner` outlives this object, or is its own.
  explicit ForwardingTransport(Transport& inner) : inner_(&inner) {}
  [[nodiscard]] Transport& inner() const { return *inner_; }
  void forward_to(Transport& inner) { inner_ = &inner; }

 private:
  Transport* inner_;
};

}  // namespace meshwork

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
  void announce(const Communicator& communicator, const Collective& collective) override {
    inner_->announce(communicator, collective);
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
  [[nodiscard]] Enqueued* enqueued() override { return inner_->enqueued(); }

 protected:
  [[nodiscard]] Compiled make(const Communicator& communicator, const Collective& collective,
                              Use use) override {
    return inner_->compile(communicator, collective, use);
  }

  /// `inner` outlives this object, or is its own.
  explicit ForwardingTransport(Transport& inner) : inner_(&inner) {}
  [[nodiscard]] Transport& inner() const { return *inner_; }
  void forward_to(Transport& inner) { inner_ = &inner; }

 private:
  Transport* inner_;
};

}  // namespace meshwork

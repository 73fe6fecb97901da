// A transport that takes the host's buffers, for tests that fill and read them as ever, and hands a
// transport copies of them in a device's memory.
//
// The copies are made like kernels: started behind one another, and not waited for. So a transport
// passes the tests only if it comes behind the kernels that write what it sends, and before those
// that read what it brings.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/transport.h"
#include "tests/support/apart_queues.h"

namespace meshwork::test {

class ThroughDevice final : public Transport {
 public:
  ThroughDevice(std::unique_ptr<ApartQueues> device, std::unique_ptr<Transport> inner)
      : device_(std::move(device)), inner_(std::move(inner)) {}

  [[nodiscard]] std::string_view name() const override { return inner_->name(); }
  void prepare(const Communicator& communicator) override { inner_->prepare(communicator); }
  /// The host's, and left there.
  [[nodiscard]] TransportMemory allocate(const Communicator& communicator,
                                         std::int64_t bytes) override {
    TransportMemory memory = inner_->allocate(communicator, bytes);
    windows_.emplace_back(memory.data(), static_cast<std::size_t>(memory.bytes()));
    return memory;
  }
  [[nodiscard]] bool shares_memory() const override { return inner_->shares_memory(); }
  [[nodiscard]] Sharers sharers(const Communicator& communicator) const override {
    return inner_->sharers(communicator);
  }
  void barrier_of_sharers(const Communicator& communicator) override {
    inner_->barrier_of_sharers(communicator);
  }

  void all_reduce(const Communicator& communicator, ElementType type, Reduction reduction,
                  void* buffer, std::int64_t count) override {
    Copy copy(*device_, buffer, count * element_bytes(type));
    inner_->all_reduce(communicator, type, reduction, copy.data(), count);
    copy.bring_back();
  }

  [[nodiscard]] Pending start_all_reduce(const Communicator& communicator, ElementType type,
                                         Reduction reduction, void* buffer,
                                         std::int64_t count) override {
    auto request = std::make_shared<Request>(Copy(*device_, buffer, count * element_bytes(type)));
    request->inner =
        inner_->start_all_reduce(communicator, type, reduction, request->copy.data(), count);
    return Pending(request);
  }

  [[nodiscard]] Pending start_reduce_in_parts(const Communicator& communicator, ElementType type,
                                              Reduction reduction, void* buffer,
                                              std::int64_t count) override {
    const auto holds = [&](std::span<std::byte> window) {
      return buffer >= window.data() && buffer < window.data() + window.size();
    };
    if (std::any_of(windows_.begin(), windows_.end(), holds)) {
      return inner_->start_reduce_in_parts(communicator, type, reduction, buffer, count);
    }
    auto request = std::make_shared<Request>(Copy(*device_, buffer, count * element_bytes(type)));
    request->inner =
        inner_->start_reduce_in_parts(communicator, type, reduction, request->copy.data(), count);
    return Pending(request);
  }

  void reduce_scatter(const Communicator& communicator, ElementType type, const void* send,
                      void* receive, std::span<const std::int64_t> counts) override {
    const std::int64_t width = element_bytes(type);
    std::int64_t total = 0;
    for (const std::int64_t count : counts) total += count;
    const Copy sent(*device_, send, total * width);
    Copy received(*device_, receive, counts[communicator.rank()] * width);
    inner_->reduce_scatter(communicator, type, sent.data(), received.data(), counts);
    received.bring_back();
  }

  void all_gather(const Communicator& communicator, ElementType type, const void* send,
                  void* receive, std::span<const std::int64_t> counts,
                  std::span<const std::int64_t> offsets) override {
    const std::int64_t width = element_bytes(type);
    std::int64_t extent = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      extent = std::max(extent, offsets[i] + counts[i]);
    }
    const std::int64_t own = offsets[communicator.rank()] * width;
    const std::int64_t bytes = counts[communicator.rank()] * width;
    Copy received(*device_, receive, extent * width);
    if (bytes > 0 && send == static_cast<std::byte*>(receive) + own) {
      inner_->all_gather(communicator, type, received.data() + own, received.data(), counts,
                         offsets);
    } else {
      const Copy sent(*device_, send, bytes);
      inner_->all_gather(communicator, type, sent.data(), received.data(), counts, offsets);
    }
    received.bring_back();
  }

  void all_to_all(const Communicator& communicator, ElementType type, const void* send,
                  std::span<const std::int64_t> send_counts,
                  std::span<const std::int64_t> send_offsets, void* receive,
                  std::span<const std::int64_t> receive_counts,
                  std::span<const std::int64_t> receive_offsets) override {
    const auto extent = [&](std::span<const std::int64_t> counts,
                            std::span<const std::int64_t> offsets) {
      std::int64_t end = 0;
      for (std::size_t i = 0; i < counts.size(); ++i) {
        if (counts[i] > 0) end = std::max(end, offsets[i] + counts[i]);
      }
      return end * element_bytes(type);
    };
    const Copy sent(*device_, send, extent(send_counts, send_offsets));
    Copy received(*device_, receive, extent(receive_counts, receive_offsets));
    inner_->all_to_all(communicator, type, sent.data(), send_counts, send_offsets, received.data(),
                       receive_counts, receive_offsets);
    received.bring_back();
  }

  void exchange(const Communicator& communicator, ElementType type, const void* send,
                std::span<const NeighbourBlock> sends, void* receive,
                std::span<const NeighbourBlock> receives) override {
    const auto extent = [&](std::span<const NeighbourBlock> blocks) {
      std::int64_t end = 0;
      for (const NeighbourBlock& block : blocks) end = std::max(end, block.offset + block.count);
      return end * element_bytes(type);
    };
    const Copy sent(*device_, send, extent(sends));
    Copy received(*device_, receive, extent(receives));
    inner_->exchange(communicator, type, sent.data(), sends, received.data(), receives);
    received.bring_back();
  }

  void broadcast(const Communicator& communicator, ElementType type, void* buffer,
                 std::int64_t count, int root) override {
    Copy copy(*device_, buffer, count * element_bytes(type));
    inner_->broadcast(communicator, type, copy.data(), count, root);
    copy.bring_back();
  }

 private:
  /// A copy of a buffer on the device.
  class Copy {
   public:
    Copy(ApartQueues& device, const void* host, std::int64_t bytes)
        : device_(&device), host_(const_cast<void*>(host)), memory_(device.allocate(bytes)) {
      device.kernels().start_copy(memory_.data(), host_, bytes);
    }
    [[nodiscard]] std::byte* data() const { return memory_.bytes_at(0); }
    void bring_back() {
      device_->kernels().start_copy(host_, memory_.data(), memory_.bytes());
      const std::unique_ptr<Mark> done = device_->make_mark();
      device_->kernels().record(*done);
      done->wait();
    }

   private:
    ApartQueues* device_;
    void* host_;
    Memory memory_;
  };

  struct Request final : Pending::Request {
    explicit Request(Copy of_buffer) : copy(std::move(of_buffer)) {}
    void wait() override {
      inner.wait();
      copy.bring_back();
    }
    Copy copy;
    Pending inner;
  };

  std::unique_ptr<ApartQueues> device_;
  std::unique_ptr<Transport> inner_;
  std::vector<std::span<std::byte>> windows_;
};

}  // namespace meshwork::test

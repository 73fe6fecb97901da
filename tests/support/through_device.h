// A transport that takes the host's buffers, for tests that fill and read them as ever, and hands a
// transport copies of them in a device's memory.
//
// The copies are made like kernels: started behind one another, and not waited for. So a transport
// passes the tests only if it comes behind the kernels that write what it sends, and before those
// that read what it brings.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
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

 protected:
  [[nodiscard]] Compiled make(const Communicator& communicator, const Collective& collective,
                              Use use) override {
    return std::make_unique<Through>(*this, communicator.rank(), collective,
                                     inner_->compile(communicator, collective, use));
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

  class Through final : public CompiledCollective {
   public:
    Through(ThroughDevice& of, int rank, const Collective& collective, Compiled inner)
        : of_(of), inner_(std::move(inner)) {
      const Extents extents = extents_of(collective, rank);
      send_bytes_ = extents.send * element_bytes(type_of(collective));
      receive_bytes_ = extents.receive * element_bytes(type_of(collective));
      const auto* const reduction = std::get_if<AllReduce>(&collective);
      in_windows_ = reduction != nullptr && reduction->in_parts;
    }
    void start(const void* send, void* receive) override {
      if (in_windows_ && of_.is_in_window(receive)) return inner_->start(send, receive);
      received_.emplace(*of_.device_, receive, receive_bytes_);
      const std::ptrdiff_t at =
          static_cast<const std::byte*>(send) - static_cast<std::byte*>(receive);
      if (send_bytes_ > 0 && send != nullptr && at >= 0 && at < receive_bytes_) {
        inner_->start(received_->data() + at, received_->data());  // where it is to be already
      } else {
        sent_.emplace(*of_.device_, send, send_bytes_);
        inner_->start(sent_->data(), received_->data());
      }
    }
    void wait() override {
      inner_->wait();
      if (received_) received_->bring_back();
      received_.reset();
      sent_.reset();
    }

   private:
    ThroughDevice& of_;
    Compiled inner_;
    std::int64_t send_bytes_ = 0, receive_bytes_ = 0;
    bool in_windows_ = false;
    std::optional<Copy> sent_, received_;
  };

  [[nodiscard]] bool is_in_window(const void* buffer) const {
    return std::any_of(windows_.begin(), windows_.end(), [&](std::span<std::byte> window) {
      return buffer >= window.data() && buffer < window.data() + window.size();
    });
  }

  std::unique_ptr<ApartQueues> device_;
  std::unique_ptr<Transport> inner_;
  std::vector<std::span<std::byte>> windows_;
};

}  // namespace meshwork::test

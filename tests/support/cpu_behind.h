// A device of a test's own that computes as the CPU does, but for kernels that the test puts
// something around.
#pragma once

#include <memory>
#include <utility>

#include "runtime/device/device.h"

namespace meshwork::test {

class CpuBehind : public Device {
 public:
  CpuBehind(DeviceTraits traits, const DeviceOptions& options)
      : Device(std::move(traits)),
        cpu_(make_device({"cpu", options.ranks_on_node, options.rank_on_node})) {}

  [[nodiscard]] std::string description() const override { return "a CPU"; }
  [[nodiscard]] Memory allocate(std::int64_t bytes) override { return cpu_->allocate(bytes); }
  void copy_in(void* to, const void* from, std::int64_t bytes) override {
    cpu_->copy_in(to, from, bytes);
  }
  void copy_out(void* to, const void* from, std::int64_t bytes) override {
    cpu_->copy_out(to, from, bytes);
  }
  void synchronize() override { cpu_->synchronize(); }
  [[nodiscard]] DeviceQueues& queues() override { return cpu_->queues(); }
  [[nodiscard]] std::unique_ptr<Kernel> compile(const KernelSpec& spec) override {
    return cpu_->compile(spec);
  }

 private:
  std::unique_ptr<Device> cpu_;
};

/// A kernel with something around its runs: `around(run)` is to call `run()`.
template <class Around>
class KernelWithin final : public Kernel {
 public:
  KernelWithin(std::unique_ptr<Kernel> kernel, Around around)
      : kernel_(std::move(kernel)), around_(std::move(around)) {}
  void run(void* const* operands) override {
    around_([&] { kernel_->run(operands); });
  }
  [[nodiscard]] std::int64_t workspace_bytes() const override { return kernel_->workspace_bytes(); }

 private:
  std::unique_ptr<Kernel> kernel_;
  Around around_;
};

template <class Around>
[[nodiscard]] std::unique_ptr<Kernel> within(std::unique_ptr<Kernel> kernel, Around around) {
  return std::make_unique<KernelWithin<Around>>(std::move(kernel), std::move(around));
}

}  // namespace meshwork::test

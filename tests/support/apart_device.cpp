#include "tests/support/apart_device.h"

#include <cstring>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "runtime/device/kernels/precision.h"
#include "tests/support/apart_queues.h"

namespace meshwork::test {
namespace {

std::int64_t free_bytes_said = std::int64_t{1} << 30;

// As CUDA has a current GPU for each thread: a kernel on another one would fail, or run elsewhere.
thread_local const ApartQueues* current = nullptr;

class ApartKernel final : public Kernel {
 public:
  ApartKernel(std::unique_ptr<Kernel> kernel, ApartQueues& queues)
      : kernel_(std::move(kernel)), queues_(queues) {}
  ~ApartKernel() override { queues_.finish_quietly(); }
  ApartKernel(const ApartKernel&) = delete;
  ApartKernel& operator=(const ApartKernel&) = delete;

  void run(void* const* operands) override {
    if (current != &queues_) fail("the device is not the current one of the thread");
    queues_.start([this, operands] { kernel_->run(operands); });
  }
  [[nodiscard]] std::int64_t workspace_bytes() const override { return kernel_->workspace_bytes(); }

 private:
  std::unique_ptr<Kernel> kernel_;
  ApartQueues& queues_;
};

class ApartDevice final : public Device {
 public:
  ApartDevice(const DeviceOptions& options, bool has_streams)
      : Device(apart_traits("apart")),
        cpu_(make_device({"cpu", options.ranks_on_node, options.rank_on_node})),
        queues_(true, has_streams) {
    ApartDevice::make_current();
  }

  [[nodiscard]] std::string description() const override {
    return cpu_->description() + ", kept apart";
  }

  void make_current() override { current = &queues_; }
  [[nodiscard]] std::int64_t free_bytes() override { return free_bytes_said; }
  [[nodiscard]] bool is_faster_in(Precision precision) const override {
    return cpu_->is_faster_in(precision);
  }

  [[nodiscard]] Memory allocate(std::int64_t bytes) override {
    make_current();
    return queues_.allocate(bytes);
  }
  void copy_in(void* device_destination, const void* host_source, std::int64_t bytes) override {
    copy(device_destination, host_source, bytes);
  }
  void copy_out(void* host_destination, const void* device_source, std::int64_t bytes) override {
    copy(host_destination, device_source, bytes);
  }
  void synchronize() override {
    make_current();
    queues_.finish();
  }
  [[nodiscard]] DeviceQueues& queues() override { return queues_; }

  [[nodiscard]] std::unique_ptr<Kernel> compile(const KernelSpec& spec) override {
    make_current();
    return std::make_unique<ApartKernel>(cpu_->compile(spec), queues_);
  }
  [[nodiscard]] std::vector<KernelCandidate> candidates(const KernelSpec& spec) override {
    std::vector<KernelCandidate> all = cpu_->candidates(spec);
    for (KernelCandidate& one : all) {
      one.compile = [this, compile = std::move(one.compile)] {
        return std::make_unique<ApartKernel>(compile(), queues_);
      };
    }
    return all;
  }

 private:
  void copy(void* destination, const void* source, std::int64_t bytes) {
    make_current();
    if (bytes == 0) return;
    queues_.finish();
    queues_.start([=] { std::memcpy(destination, source, static_cast<std::size_t>(bytes)); });
    queues_.finish();
  }

  std::unique_ptr<Device> cpu_;
  ApartQueues queues_;
};

}  // namespace

void set_apart_free_bytes(std::int64_t bytes) {
  free_bytes_said = bytes;
}

DeviceTraits apart_traits(std::string kind) {
  DeviceTraits traits = traits_of_device("cuda");
  traits.kind = std::move(kind);
  return traits;
}

std::unique_ptr<Device> make_apart_device(const DeviceOptions& options) {
  return std::make_unique<ApartDevice>(options, false);
}

std::unique_ptr<Device> make_apart_device_with_streams(const DeviceOptions& options) {
  return std::make_unique<ApartDevice>(options, true);
}

}  // namespace meshwork::test

#include "runtime/device/cpu/cpu_device.h"

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "collectives/error.h"
#include "runtime/device/cpu/bfloat16_instructions.h"
#include "runtime/device/cpu/dnnl_version.h"
#include "runtime/device/cpu/kernels.h"
#include "runtime/device/cpu/memory.h"
#include "runtime/device/cpu/queues.h"
#include "runtime/device/cpu/threads.h"
#include "runtime/device/kernels/precision.h"

namespace meshwork::cpu {

namespace {

/// The processor's name as the system gives it.
std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "processor";
}

/// What extensions of this process have entered.
std::vector<std::function<void(Kernels&)>>& extensions() {
  static std::vector<std::function<void(Kernels&)>> all;
  return all;
}

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const DeviceOptions& options)
      : Device(cpu::traits()),
        context_{.threads = threads_for(options.ranks_on_node), .kernels = &kernels_} {
    add_kernels(kernels_);
    for (const auto& enter : extensions()) enter(kernels_);
    prepare_threads(context_.threads);
  }

  [[nodiscard]] std::string description() const override {
    return fmt::format("{}, {} thread{}", processor_name(), context_.threads,
                       context_.threads == 1 ? "" : "s");
  }

  [[nodiscard]] std::string platform() const override {
    const dnnl_version_t& library = *dnnl_version();
    return fmt::format("{}, oneDNN {}.{}.{}", description(), library.major, library.minor,
                       library.patch);
  }

  [[nodiscard]] bool is_faster_in(Precision precision) const override {
    return precision == Precision::bfloat16 && uses_bfloat16_instructions();
  }

  [[nodiscard]] Memory allocate(std::int64_t bytes) override { return cpu::allocate(bytes); }

  void copy_in(void* device_destination, const void* host_source, std::int64_t bytes) override {
    if (bytes > 0) std::memcpy(device_destination, host_source, static_cast<std::size_t>(bytes));
  }

  void copy_out(void* host_destination, const void* device_source, std::int64_t bytes) override {
    if (bytes > 0) std::memcpy(host_destination, device_source, static_cast<std::size_t>(bytes));
  }

  void synchronize() override {}
  [[nodiscard]] DeviceQueues& queues() override { return queues_; }

  [[nodiscard]] std::unique_ptr<Kernel> compile(const KernelSpec& spec) override {
    check_precision(spec);
    return kernels_.compile(spec, context_);
  }
  [[nodiscard]] std::vector<KernelCandidate> candidates(const KernelSpec& spec) override {
    check_precision(spec);
    return kernels_.candidates(spec, context_);
  }

 private:
  /// Throws `Error` for a precision in which no processor multiplies.
  static void check_precision(const KernelSpec& spec) {
    if (spec.work().precision == Precision::tf32) {
      fail("{}: tf32 exists on NVIDIA GPUs only; CPUs have float32 and bfloat16", spec.text());
    }
  }

  Kernels kernels_;
  Context context_;
  CpuQueues queues_;
};

}  // namespace

DeviceTraits traits() {
  return {.reads_narrow_operands = uses_bfloat16_instructions()};
}

void extend_kernels(std::function<void(Kernels&)> enter) {
  extensions().push_back(std::move(enter));
}

std::unique_ptr<Device> make_cpu_device(const DeviceOptions& options) {
  return std::make_unique<CpuDevice>(options);
}

}  // namespace meshwork::cpu

#include "runtime/device/cuda/cuda_device.h"

#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "runtime/device/cuda/check.h"
#include "runtime/device/cuda/gpu_choice.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/launched.h"
#include "runtime/device/cuda/libraries.h"
#include "runtime/device/cuda/library.h"
#include "runtime/device/cuda/queues.h"
#include "runtime/device/cuda/trial.h"
#include "runtime/device/kernels/precision.h"

namespace meshwork::cuda {

namespace {

/// What CUDA shows this process.
Visibility look() {
  Visibility seen;
  check_cuda(cudaRuntimeGetVersion(&seen.runtime), "cudaRuntimeGetVersion");
  // 0 without a driver.
  const cudaError_t version = cudaDriverGetVersion(&seen.driver);
  const cudaError_t code = version == cudaSuccess ? cudaGetDeviceCount(&seen.count) : version;
  if (code == cudaSuccess) {
    seen.state = seen.count > 0 ? Visibility::State::visible : Visibility::State::none;
    return seen;
  }
  static_cast<void>(cudaGetLastError());  // it has been answered
  if (code == cudaErrorInsufficientDriver) {
    seen.state = seen.driver == 0 ? Visibility::State::no_driver : Visibility::State::old_driver;
  } else if (code != cudaErrorNoDevice) {
    // A driver of another version than its library, a stub, a GPU that has to be reset.
    seen.state = Visibility::State::broken;
    seen.problem = fmt::format("{}, {}", cudaGetErrorName(code), cudaGetErrorString(code));
  }
  return seen;
}

class CudaDevice final : public Device {
 public:
  CudaDevice(int gpu, int visible, bool sleeps)
      : Device(cuda::traits()), gpu_(gpu), visible_(visible) {
    CudaDevice::make_current();
    if (sleeps) {
      check_cuda(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync), "cudaSetDeviceFlags");
    }
    check_cuda(cudaGetDeviceProperties(&properties_, gpu), "cudaGetDeviceProperties");
    constexpr int ampere = 8;
    if (properties_.major < ampere) {
      fail("GPU {}, {}, has compute capability {}.{}: kernels need 8.0 or more; say `device: cpu`",
           gpu, properties_.name, properties_.major, properties_.minor);
    }
    queues_ = std::make_unique<CudaQueues>(allocations_, activity_, sleeps);
    libraries_.stream = queues_->kernels().stream();
    check_cublas(cublasLtCreate(libraries_.lt.out()), "cublasLtCreate", "matrix products");
    context_.launcher.stream = libraries_.stream;
    context_.launcher.processors = properties_.multiProcessorCount;
    context_.launcher.activity = activity_;
    context_.device = this;
    context_.libraries = &libraries_;
    context_.trials = &trials_;
    add_kernels(kernels_);
    add_launched(kernels_);
    context_.kernels = &kernels_;
  }

  [[nodiscard]] std::string description() const override {
    std::string text =
        fmt::format("{}, {:.0f} GiB, GPU {} of {}", properties_.name,
                    static_cast<double>(properties_.totalGlobalMem) / (1 << 30), gpu_, visible_);
    if (sharers_ > 1) text += fmt::format(", shared by {} ranks", sharers_);
    return text;
  }

  [[nodiscard]] std::string platform() const override {
    return fmt::format("{}{}, cuBLASLt {}, cuDNN {}", properties_.name,
                       sharers_ > 1 ? fmt::format(" shared by {} ranks", sharers_) : "",
                       cublasLtGetVersion(), cudnnGetVersion());
  }

  /// The GPU's UUID, or that of the part of one that MIG makes.
  [[nodiscard]] std::string hardware() const override {
    return {properties_.uuid.bytes, sizeof properties_.uuid.bytes};
  }
  void share(int ranks) override { sharers_ = ranks; }
  [[nodiscard]] std::string remark() const override { return trials_.remark(); }
  [[nodiscard]] bool is_faster_in(Precision precision) const override {
    return precision != Precision::float32;
  }
  [[nodiscard]] std::int64_t free_bytes() override {
    make_current();
    std::size_t available = 0, total = 0;
    check_cuda(cudaMemGetInfo(&available, &total), "cudaMemGetInfo");
    return static_cast<std::int64_t>(available) / sharers_;
  }

  /// CUDA has a current GPU for each thread, 0 for a new one.
  void make_current() override { check_cuda(cudaSetDevice(gpu_), "cudaSetDevice"); }

  [[nodiscard]] Memory allocate(std::int64_t bytes) override {
    if (bytes <= 0) return {};
    make_current();
    void* data = nullptr;
    const auto size = static_cast<std::size_t>(bytes);
    const cudaError_t code = cudaMalloc(&data, size);
    if (code == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());
      std::size_t available = 0, total = 0;
      check_cuda(cudaMemGetInfo(&available, &total), "cudaMemGetInfo");
      fail("GPU memory is full: {} bytes were requested on GPU {}, {} of its {} bytes are free",
           bytes, gpu_, available, total);
    }
    check_cuda(code, "cudaMalloc", started_last(*activity_));
    // cudaFree waits for what uses it. What goes wrong there was wrong before, and has been said.
    Memory memory(data, bytes, [allocations = allocations_](void* owned) {
      allocations->remove(owned);
      static_cast<void>(cudaFree(owned));
    });
    allocations_->add(data, bytes);
    check_cuda(cudaMemsetAsync(data, 0, size, queues_->kernels().stream()), "cudaMemsetAsync");
    synchronize();
    return memory;
  }

  void copy_in(void* device_destination, const void* host_source, std::int64_t bytes) override {
    copy(device_destination, host_source, bytes);
  }
  void copy_out(void* host_destination, const void* device_source, std::int64_t bytes) override {
    copy(host_destination, device_source, bytes);
  }

  void synchronize() override {
    make_current();
    queues_->synchronize();
  }
  [[nodiscard]] DeviceQueues& queues() override { return *queues_; }

  [[nodiscard]] std::unique_ptr<Kernel> compile(const KernelSpec& spec) override {
    return kernels_.compile(spec, context_of(spec));
  }
  [[nodiscard]] std::vector<KernelCandidate> candidates(const KernelSpec& spec) override {
    return kernels_.candidates(spec, context_of(spec));
  }

 private:
  [[nodiscard]] Context context_of(const KernelSpec& spec) {
    make_current();
    Context context = context_;
    context.launcher.name = std::make_shared<const std::string>(spec.text());
    return context;
  }

  void copy(void* to, const void* from, std::int64_t bytes) {
    synchronize();
    queues_->kernels().start_copy(to, from, bytes);
    queues_->kernels().synchronize();
  }

  int gpu_;
  int visible_;
  int sharers_ = 1;  // ranks that compute on this GPU
  cudaDeviceProp properties_{};
  std::shared_ptr<Activity> activity_ = std::make_shared<Activity>();
  std::shared_ptr<Allocations> allocations_ = std::make_shared<Allocations>();
  std::unique_ptr<CudaQueues> queues_;
  Libraries libraries_;
  Trials trials_;
  Kernels kernels_;
  Context context_;
};

// Not `why_unavailable`: what library.h declares by that name calls this.
std::string why_no_gpu() {
  const Visibility seen = look();
  if (seen.state == Visibility::State::visible) return {};
  return why_none(seen, std::getenv("CUDA_VISIBLE_DEVICES"));
}

/// That this process may run on.
int own_cores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
}

std::unique_ptr<Device> make(const DeviceOptions& options) {
  const Visibility seen = look();
  if (seen.state != Visibility::State::visible) {
    fail("device \"cuda\": {}", why_none(seen, std::getenv("CUDA_VISIBLE_DEVICES")));
  }
  const int gpu = choose_gpu(seen.count, options.ranks_on_node, options.rank_on_node);
  return std::make_unique<CudaDevice>(
      gpu, seen.count,
      sleeps_while_waiting(own_cores(), static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)),
                           options.ranks_on_node));
}

}  // namespace

}  // namespace meshwork::cuda

const meshwork::cuda::CudaDeviceLibrary meshwork_cuda_device{meshwork::cuda::why_no_gpu,
                                                             meshwork::cuda::make};

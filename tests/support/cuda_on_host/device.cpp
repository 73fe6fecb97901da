#include "tests/support/cuda_on_host/device.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>

#include "collectives/error.h"
#include "runtime/device/body_kernel.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cuda/convolution_forms.h"
#include "runtime/device/cuda/epilogue.h"
#include "runtime/device/cuda/gradient_epilogue.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/launched.h"
#include "runtime/device/cuda/narrow_inputs.h"
#include "runtime/device/element_functions.h"
#include "runtime/device/kernels/convolution.h"
#include "runtime/device/kernels/products.h"

namespace meshwork::cuda {

void refuse(const std::string& kernel, const std::string& reason) {
  fail("{}: {}", kernel, reason);
}

/// Launches compute at once, and cannot be refused.
void check_launch(const Launcher& launcher, std::source_location) {
  *launcher.activity = {launcher.name};
}

namespace {

/// A product by its definition (product_direct.cu), in place of cuBLASLt's.
KernelPointer compile(const MatmulSpec& spec, const Context& context) {
  if (spec.precision == Precision::bfloat16 && !spec.narrow) {
    MatmulSpec stored = spec;
    stored.narrow = true;
    return with_narrow_inputs(compile(stored, context), operand_count(spec), spec.a_count(),
                              spec.b_count(), context);
  }
  // What gradients take along, and masks, are kernels of our own where the library has none.
  MatmulSpec alone = spec;
  alone.derivative = Activation::linear;
  alone.column_sums = alone.mask = false;
  if (writes_mask(spec)) alone.activation = Activation::linear;
  if (alone != spec) return finished(compile(alone, context), spec, alone, context);
  return make_kernel([spec, sums = compile_direct(bare(spec), context)](void* const* operands) {
    float* c = at(operands, result_operand(spec));
    const std::array<void*, 3> factors_and_result{operands[0], operands[1], c};
    sums->run(factors_and_result.data());
    const float* bias = spec.bias ? at(operands, 2) : nullptr;
    for (std::int64_t i = 0; i < spec.m * spec.n; ++i) {
      if (bias != nullptr) c[i] += bias[i % spec.n];
      if (spec.activation == Activation::relu) c[i] = bodies::Relu{}(c[i]);
    }
  });
}

/// The direct convolutions or, with `unfolds`, products where there are no groups, in place of
/// cuDNN's.
KernelPointer convolution(const auto& spec, bool unfolds, const Context& context) {
  const ConvolutionShape& at = spec.at;
  const bool has_terms = input_count(at) > 0 && output_count(at) > 0;
  return unfolds && at.groups == 1 && has_terms ? compile_unfolded(spec, context)
                                                : compile_direct(spec, context);
}

}  // namespace

Kernels all_kernels(bool unfolds) {
  Kernels kernels;
  add_kernels(kernels);
  kernels.add<MatmulSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
  kernels.add<ConvolutionInputGradientSpec, ConvolutionKernelGradientSpec>(
      [unfolds](const auto& spec, const Context& context) {
        return convolution(spec, unfolds, context);
      });
  kernels.add<ConvolutionSpec>([unfolds](const ConvolutionSpec& spec, const Context& context) {
    return with_epilogue(
        convolution(spec, unfolds, context),
        {.rows = output_count(spec.at) / std::max<std::int64_t>(spec.at.filters, 1),
         .columns = spec.at.filters,
         .bias = spec.bias,
         .activation = spec.activation},
        context);
  });
  return kernels;
}

}  // namespace meshwork::cuda

namespace meshwork::test {

namespace {

class CudaOnHost final : public Device {
 public:
  explicit CudaOnHost(bool unfolds)
      : Device({.kind = "cuda-on-host"}), kernels_(cuda::all_kernels(unfolds)) {
    cuda::add_launched(kernels_);
  }
  [[nodiscard]] std::string description() const override {
    return "the kernels of the CUDA device, on the host";
  }
  [[nodiscard]] Memory allocate(std::int64_t bytes) override { return memory_->allocate(bytes); }
  void copy_in(void* to, const void* from, std::int64_t bytes) override {
    memory_->copy_in(to, from, bytes);
  }
  void copy_out(void* to, const void* from, std::int64_t bytes) override {
    memory_->copy_out(to, from, bytes);
  }
  void synchronize() override {}
  [[nodiscard]] DeviceQueues& queues() override { return memory_->queues(); }

  [[nodiscard]] std::unique_ptr<Kernel> compile(const KernelSpec& spec) override {
    return kernels_.compile(spec, context_of(spec));
  }
  [[nodiscard]] std::vector<KernelCandidate> candidates(const KernelSpec& spec) override {
    return kernels_.candidates(spec, context_of(spec));
  }

 private:
  [[nodiscard]] cuda::Context context_of(const KernelSpec& spec) {
    cuda::Context context;
    context.launcher.name = std::make_shared<const std::string>(spec.text());
    context.launcher.activity = activity_;
    context.device = this;
    context.kernels = &kernels_;
    context.launcher.processors = processors_of_cuda_on_host;
    return context;
  }

  std::shared_ptr<cuda::Activity> activity_ = std::make_shared<cuda::Activity>();
  cuda::Kernels kernels_;
  std::unique_ptr<Device> memory_ = cpu::make_cpu_device({});
};

}  // namespace

std::set<std::type_index> cuda_on_host_kernels() {
  return cuda::all_kernels(false).types();
}

std::unique_ptr<Device> make_cuda_on_host(bool unfolds) {
  return std::make_unique<CudaOnHost>(unfolds);
}

}  // namespace meshwork::test

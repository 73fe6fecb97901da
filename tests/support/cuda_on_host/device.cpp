#include "tests/support/cuda_on_host/device.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "collectives/error.h"
#include "runtime/device/body_kernel.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cuda/compile.h"
#include "runtime/device/cuda/convolution_forms.h"
#include "runtime/device/cuda/epilogue.h"
#include "runtime/device/cuda/functions.h"
#include "runtime/device/cuda/gradient_epilogue.h"
#include "runtime/device/cuda/narrow_inputs.h"
#include "runtime/device/kernel_checks.h"

namespace meshwork::cuda {

void refuse(const std::string& kernel, const std::string& reason) {
  fail("{}: {}", kernel, reason);
}

/// A product by its definition (product_direct.cu), in place of cuBLASLt's.
KernelPointer compile(const MatmulSpec& spec, const Context& context) {
  if (spec.precision == Precision::bfloat16 && !spec.narrow) {
    MatmulSpec stored = spec;
    stored.narrow = true;
    return with_narrow_inputs(compile(stored, context), operand_count(spec), spec.m * spec.k,
                              spec.k * spec.n, context);
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
      if (spec.activation == Activation::relu) c[i] = Relu{}(c[i]);
    }
  });
}

}  // namespace meshwork::cuda

namespace meshwork::test {

namespace {

class CudaOnHost final : public Device {
 public:
  explicit CudaOnHost(bool unfolds) : Device({.kind = "cuda-on-host"}), unfolds_(unfolds) {}
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
    check(spec);
    cuda::Context context;
    context.launcher.name = std::make_shared<const std::string>(describe(spec));
    context.device = this;
    return std::visit([&](const auto& one) { return make(one, context); }, spec);
  }

 private:
  std::unique_ptr<Kernel> make(const auto& spec, const cuda::Context& context) const {
    return cuda::compile(spec, context);
  }
  std::unique_ptr<Kernel> make(const ConvolutionSpec& spec, const cuda::Context& context) const {
    return cuda::with_epilogue(
        convolution(spec, context),
        {.rows = output_count(spec.at) / std::max<std::int64_t>(spec.at.filters, 1),
         .columns = spec.at.filters,
         .bias = spec.bias,
         .activation = spec.activation},
        context);
  }
  std::unique_ptr<Kernel> make(const ConvolutionInputGradientSpec& spec,
                               const cuda::Context& context) const {
    return convolution(spec, context);
  }
  std::unique_ptr<Kernel> make(const ConvolutionKernelGradientSpec& spec,
                               const cuda::Context& context) const {
    return convolution(spec, context);
  }
  [[nodiscard]] std::unique_ptr<Kernel> convolution(const auto& spec,
                                                    const cuda::Context& context) const {
    const ConvolutionShape& at = spec.at;
    const bool has_terms = input_count(at) > 0 && output_count(at) > 0;
    return unfolds_ && at.groups == 1 && has_terms ? cuda::compile_unfolded(spec, context)
                                                   : cuda::compile_direct(spec, context);
  }

  bool unfolds_;
  std::unique_ptr<Device> memory_ = cpu::make_cpu_device({});
};

}  // namespace

std::unique_ptr<Device> make_cuda_on_host(bool unfolds) {
  return std::make_unique<CudaOnHost>(unfolds);
}

}  // namespace meshwork::test

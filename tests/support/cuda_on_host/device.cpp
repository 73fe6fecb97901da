#include "tests/support/cuda_on_host/device.h"

#include <algorithm>
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
#include "runtime/device/cuda/gradient_epilogue.h"
#include "runtime/device/cuda/narrow_inputs.h"
#include "runtime/device/kernel_checks.h"
#include "runtime/device/narrowing.h"

namespace meshwork::cuda {

void refuse(const std::string& kernel, const std::string& reason) {
  fail("{}: {}", kernel, reason);
}

/// A product by its definition, in place of cuBLASLt's, which reads operands in float32 or, if they
/// are narrow, in bfloat16.
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
  return make_kernel([=](void* const* operands) {
    const auto factor = [&](int operand, std::int64_t i) {
      return static_cast<double>(spec.narrow ? widened(at<std::uint16_t>(operands, operand)[i])
                                             : at(operands, operand)[i]);
    };
    const float* bias = spec.bias ? at(operands, 2) : nullptr;
    float* c = at(operands, result_operand(spec));
    for (std::int64_t i = 0; i < spec.m; ++i) {
      for (std::int64_t j = 0; j < spec.n; ++j) {
        double sum = spec.accumulate ? static_cast<double>(c[i * spec.n + j]) : 0.0;
        for (std::int64_t l = 0; l < spec.k; ++l) {
          sum += factor(0, spec.transpose_a ? l * spec.m + i : i * spec.k + l) *
                 factor(1, spec.transpose_b ? j * spec.k + l : l * spec.n + j);
        }
        if (bias != nullptr) sum += static_cast<double>(bias[j]);
        const bool cut = spec.activation == Activation::relu && sum < 0;
        c[i * spec.n + j] = cut ? 0.0f : static_cast<float>(sum);
      }
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

// One function a specification: it makes the GPU's kernel. CudaDevice::compile is their only
// caller, and has them checked before (kernel_checks.h).
//
// A file of this folder holds kernels of one concern, as in cpu/; its opening comment says which,
// how they are spread over the GPU, and what bounds them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device/cuda/launcher.h"
#include "runtime/device/device.h"
#include "runtime/device/kernels.h"

namespace meshwork::cuda {

struct Libraries;  // libraries.h
class Trials;      // trial.h

/// What kernels of one device share, with the name of the one that is made.
struct Context {
  Launcher launcher;
  Device* device = nullptr;
  const Libraries* libraries = nullptr;
  Trials* trials = nullptr;

  /// A copy of a table in device memory, for a kernel to keep.
  [[nodiscard]] std::shared_ptr<const Memory> upload(const void* data, std::int64_t bytes) const {
    auto memory = std::make_shared<Memory>(device->allocate(bytes));
    device->copy_in(memory->data(), data, bytes);
    return memory;
  }
};

using KernelPointer = std::unique_ptr<Kernel>;

/// Throws `Error`: "`kernel`: `reason`". For files that the compiler of CUDA reads, which has
/// trouble with the formats of collectives/error.h.
[[noreturn]] void refuse(const std::string& kernel, const std::string& reason);

// matmul.cpp
KernelPointer compile(const MatmulSpec& spec, const Context& context);
/// The ways to compute a product that adds up something, the one that `compile` takes first; none
/// for others. All are right, and repeat themselves bit for bit. Names stay for one version of
/// cuBLASLt and one GPU.
std::vector<KernelCandidate> candidates(const MatmulSpec& spec, const Context& context);
// product_direct.cu: with nothing that is taken along
KernelPointer compile_direct(const MatmulSpec& spec, const Context& context);

// convolution.cpp
KernelPointer compile(const ConvolutionSpec& spec, const Context& context);
KernelPointer compile(const ConvolutionInputGradientSpec& spec, const Context& context);
KernelPointer compile(const ConvolutionKernelGradientSpec& spec, const Context& context);
/// Of one that has terms, the one that `compile` takes first; none for others. All are right, and
/// repeat themselves bit for bit. Names stay; which of them there are is cuDNN's affair.
std::vector<KernelCandidate> candidates(const ConvolutionSpec& spec, const Context& context);
std::vector<KernelCandidate> candidates(const ConvolutionInputGradientSpec& spec,
                                        const Context& context);
std::vector<KernelCandidate> candidates(const ConvolutionKernelGradientSpec& spec,
                                        const Context& context);

// elementwise.cu
KernelPointer compile(const BiasAddSpec& spec, const Context& context);
KernelPointer compile(const ActivationSpec& spec, const Context& context);
KernelPointer compile(const ActivationGradientSpec& spec, const Context& context);
KernelPointer compile(const RectifySpec& spec, const Context& context);
KernelPointer compile(const RectifyGradientSpec& spec, const Context& context);
KernelPointer compile(const AffineSpec& spec, const Context& context);
KernelPointer compile(const ConvertSpec& spec, const Context& context);
KernelPointer compile(const NarrowSpec& spec, const Context& context);
KernelPointer compile(const SumSpec& spec, const Context& context);
KernelPointer compile(const ScaleBySpec& spec, const Context& context);
KernelPointer compile(const ClampSpec& spec, const Context& context);
KernelPointer compile(const PenaltyGradientSpec& spec, const Context& context);

// dropout.cu
KernelPointer compile(const DropoutSpec& spec, const Context& context);

// copy.cu
KernelPointer compile(const ZeroSpec& spec, const Context& context);
KernelPointer compile(const CopySpec& spec, const Context& context);
KernelPointer compile(const GatherSpec& spec, const Context& context);

// rows.cu
KernelPointer compile(const RowMaximumSpec& spec, const Context& context);
KernelPointer compile(const RowExponentialSpec& spec, const Context& context);
KernelPointer compile(const RowDivideSpec& spec, const Context& context);
KernelPointer compile(const RowSumSpec& spec, const Context& context);
KernelPointer compile(const RowDotSpec& spec, const Context& context);
KernelPointer compile(const SoftmaxGradientSpec& spec, const Context& context);
KernelPointer compile(const SoftmaxSpec& spec, const Context& context);

// classes.cu
KernelPointer compile(const LogitStatisticsSpec& spec, const Context& context);
KernelPointer compile(const LogitLossSpec& spec, const Context& context);
KernelPointer compile(const LogitGradientSpec& spec, const Context& context);
KernelPointer compile(const ProbabilityLossSpec& spec, const Context& context);
KernelPointer compile(const ProbabilityGradientSpec& spec, const Context& context);
KernelPointer compile(const TargetValueSpec& spec, const Context& context);
KernelPointer compile(const CountAheadSpec& spec, const Context& context);
KernelPointer compile(const CountBelowSpec& spec, const Context& context);
KernelPointer compile(const FirstMaximumSpec& spec, const Context& context);

// class_comparison.cu
KernelPointer compile(const ClassComparisonSpec& spec, const Context& context);

// pooling.cu
KernelPointer compile(const MaximumPoolingSpec& spec, const Context& context);
KernelPointer compile(const MaximumPoolingGradientSpec& spec, const Context& context);
KernelPointer compile(const AveragePoolingSpec& spec, const Context& context);
KernelPointer compile(const AveragePoolingGradientSpec& spec, const Context& context);

// middle.cu
KernelPointer compile(const MiddleSumSpec& spec, const Context& context);
KernelPointer compile(const MiddleBroadcastSpec& spec, const Context& context);
KernelPointer compile(const MiddleMaximumSpec& spec, const Context& context);
KernelPointer compile(const MiddleTiesSpec& spec, const Context& context);
KernelPointer compile(const MiddleMaximumGradientSpec& spec, const Context& context);

// normalization.cu
KernelPointer compile(const ColumnSumSpec& spec, const Context& context);
KernelPointer compile(const ChannelMomentsSpec& spec, const Context& context);
KernelPointer compile(const ChannelStatisticsSpec& spec, const Context& context);
KernelPointer compile(const InverseDeviationSpec& spec, const Context& context);
KernelPointer compile(const NormalizeSpec& spec, const Context& context);
KernelPointer compile(const NormalizeGradientSumsSpec& spec, const Context& context);
KernelPointer compile(const NormalizeGradientSpec& spec, const Context& context);

// upsampling.cu
KernelPointer compile(const UpsamplingSpec& spec, const Context& context);
KernelPointer compile(const UpsamplingGradientSpec& spec, const Context& context);

// losses.cu
KernelPointer compile(const SquaredErrorSpec& spec, const Context& context);
KernelPointer compile(const SquaredErrorGradientSpec& spec, const Context& context);
KernelPointer compile(const AbsoluteErrorSpec& spec, const Context& context);
KernelPointer compile(const BinaryCrossentropySpec& spec, const Context& context);
KernelPointer compile(const BinaryCrossentropyGradientSpec& spec, const Context& context);
KernelPointer compile(const BinaryMatchSpec& spec, const Context& context);

// norms.cu
KernelPointer compile(const PowerSumSpec& spec, const Context& context);
KernelPointer compile(const WeightedSumSpec& spec, const Context& context);
KernelPointer compile(const ClipFactorSpec& spec, const Context& context);

// updates.cu
KernelPointer compile(const SgdSpec& spec, const Context& context);
KernelPointer compile(const AdamSpec& spec, const Context& context);
KernelPointer compile(const RmspropSpec& spec, const Context& context);

}  // namespace meshwork::cuda

// One function a specification: it makes the CPU's kernel. CpuDevice::compile is their only caller.
// Where several kernels compute the same, another function lists them (Device::candidates).
//
// A file of this folder holds kernels of one concern; its opening comment says which and what
// bounds them.
#pragma once

#include <memory>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/device/kernels.h"

namespace meshwork::cpu {

/// What kernels of one device share.
struct Context {
  int threads = 1;
};

using KernelPointer = std::unique_ptr<Kernel>;

// matmul.cpp
KernelPointer compile(const MatmulSpec& spec, const Context& context);
std::vector<KernelCandidate> candidates(const MatmulSpec& spec, const Context& context);

/// Of all others there is one kernel.
std::vector<KernelCandidate> candidates(const auto& /*spec*/, const Context& /*context*/) {
  return {};
}

// elementwise.cpp
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

// dropout.cpp
KernelPointer compile(const DropoutSpec& spec, const Context& context);

// copy.cpp
KernelPointer compile(const ZeroSpec& spec, const Context& context);
KernelPointer compile(const CopySpec& spec, const Context& context);
KernelPointer compile(const GatherSpec& spec, const Context& context);

// rows.cpp
KernelPointer compile(const ColumnSumSpec& spec, const Context& context);
KernelPointer compile(const RowMaximumSpec& spec, const Context& context);
KernelPointer compile(const RowExponentialSpec& spec, const Context& context);
KernelPointer compile(const RowDivideSpec& spec, const Context& context);
KernelPointer compile(const RowSumSpec& spec, const Context& context);
KernelPointer compile(const RowDotSpec& spec, const Context& context);
KernelPointer compile(const SoftmaxGradientSpec& spec, const Context& context);
KernelPointer compile(const SoftmaxSpec& spec, const Context& context);

// classes.cpp
KernelPointer compile(const LogitStatisticsSpec& spec, const Context& context);
KernelPointer compile(const LogitLossSpec& spec, const Context& context);
KernelPointer compile(const LogitGradientSpec& spec, const Context& context);
KernelPointer compile(const ProbabilityLossSpec& spec, const Context& context);
KernelPointer compile(const ProbabilityGradientSpec& spec, const Context& context);
KernelPointer compile(const TargetValueSpec& spec, const Context& context);
KernelPointer compile(const CountAheadSpec& spec, const Context& context);
KernelPointer compile(const CountBelowSpec& spec, const Context& context);
KernelPointer compile(const FirstMaximumSpec& spec, const Context& context);

// class_comparison.cpp
KernelPointer compile(const ClassComparisonSpec& spec, const Context& context);

// convolution.cpp
KernelPointer compile(const ConvolutionSpec& spec, const Context& context);
KernelPointer compile(const ConvolutionInputGradientSpec& spec, const Context& context);
KernelPointer compile(const ConvolutionKernelGradientSpec& spec, const Context& context);
std::vector<KernelCandidate> candidates(const ConvolutionSpec& spec, const Context& context);
std::vector<KernelCandidate> candidates(const ConvolutionInputGradientSpec& spec,
                                        const Context& context);
std::vector<KernelCandidate> candidates(const ConvolutionKernelGradientSpec& spec,
                                        const Context& context);

// pooling.cpp
KernelPointer compile(const MaximumPoolingSpec& spec, const Context& context);
KernelPointer compile(const MaximumPoolingGradientSpec& spec, const Context& context);
KernelPointer compile(const AveragePoolingSpec& spec, const Context& context);
KernelPointer compile(const AveragePoolingGradientSpec& spec, const Context& context);

// middle.cpp
KernelPointer compile(const MiddleSumSpec& spec, const Context& context);
KernelPointer compile(const MiddleBroadcastSpec& spec, const Context& context);
KernelPointer compile(const MiddleMaximumSpec& spec, const Context& context);
KernelPointer compile(const MiddleTiesSpec& spec, const Context& context);
KernelPointer compile(const MiddleMaximumGradientSpec& spec, const Context& context);

// normalization.cpp
KernelPointer compile(const ChannelMomentsSpec& spec, const Context& context);
KernelPointer compile(const ChannelStatisticsSpec& spec, const Context& context);
KernelPointer compile(const InverseDeviationSpec& spec, const Context& context);
KernelPointer compile(const NormalizeSpec& spec, const Context& context);
KernelPointer compile(const NormalizeGradientSumsSpec& spec, const Context& context);
KernelPointer compile(const NormalizeGradientSpec& spec, const Context& context);

// upsampling.cpp
KernelPointer compile(const UpsamplingSpec& spec, const Context& context);
KernelPointer compile(const UpsamplingGradientSpec& spec, const Context& context);

// losses.cpp
KernelPointer compile(const SquaredErrorSpec& spec, const Context& context);
KernelPointer compile(const SquaredErrorGradientSpec& spec, const Context& context);
KernelPointer compile(const AbsoluteErrorSpec& spec, const Context& context);
KernelPointer compile(const BinaryCrossentropySpec& spec, const Context& context);
KernelPointer compile(const BinaryCrossentropyGradientSpec& spec, const Context& context);
KernelPointer compile(const BinaryMatchSpec& spec, const Context& context);

// norms.cpp
KernelPointer compile(const PowerSumSpec& spec, const Context& context);
KernelPointer compile(const WeightedSumSpec& spec, const Context& context);
KernelPointer compile(const ClipFactorSpec& spec, const Context& context);

// updates.cpp
KernelPointer compile(const SgdSpec& spec, const Context& context);
KernelPointer compile(const AdamSpec& spec, const Context& context);
KernelPointer compile(const RmspropSpec& spec, const Context& context);

}  // namespace meshwork::cpu

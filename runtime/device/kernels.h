// The kernels that every device has, as specifications: plain values that say what to compute on
// which local shapes. `Device::compile` turns one into something that runs.
//
// Tensors are float32 and row-major unless said otherwise, also where products are computed in
// another precision (kernels/precision.h). "rows" are all leading dimensions taken
// together, "columns" the last one. Operand order stands with each specification: inputs, then
// outputs. Any count may be 0. Outputs do not overlap inputs unless "may be in place" is said. Sums
// that stand for the whole batch are float64 scalars and are *written*, not added to. Every kernel
// gives the same bits for the same inputs.
#pragma once

#include <string>
#include <variant>

#include "runtime/device/kernels/activation.h"
#include "runtime/device/kernels/classes.h"
#include "runtime/device/kernels/convolution.h"
#include "runtime/device/kernels/copies.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/losses.h"
#include "runtime/device/kernels/middle.h"
#include "runtime/device/kernels/normalization.h"
#include "runtime/device/kernels/pooling.h"
#include "runtime/device/kernels/precision.h"
#include "runtime/device/kernels/products.h"
#include "runtime/device/kernels/rows.h"
#include "runtime/device/kernels/step_scalars.h"
#include "runtime/device/kernels/updates.h"
#include "runtime/device/kernels/upsampling.h"
#include "runtime/device/kernels/windows.h"

namespace meshwork {

using KernelSpec = std::variant<
    MatmulSpec, BiasAddSpec, ColumnSumSpec, ActivationSpec, ActivationGradientSpec, RectifySpec,
    RectifyGradientSpec, AffineSpec, ConvertSpec, NarrowSpec, SumSpec, DropoutSpec, ZeroSpec,
    CopySpec, GatherSpec, RowMaximumSpec, RowExponentialSpec, RowDivideSpec, RowSumSpec, RowDotSpec,
    SoftmaxGradientSpec, SoftmaxSpec, LogitStatisticsSpec, LogitLossSpec, LogitGradientSpec,
    ProbabilityLossSpec, ProbabilityGradientSpec, TargetValueSpec, CountAheadSpec, CountBelowSpec,
    FirstMaximumSpec, ClassComparisonSpec, ConvolutionSpec, ConvolutionInputGradientSpec,
    ConvolutionKernelGradientSpec, MaximumPoolingSpec, MaximumPoolingGradientSpec,
    AveragePoolingSpec, AveragePoolingGradientSpec, MiddleSumSpec, MiddleBroadcastSpec,
    MiddleMaximumSpec, MiddleTiesSpec, MiddleMaximumGradientSpec, ChannelMomentsSpec,
    ChannelStatisticsSpec, InverseDeviationSpec, NormalizeSpec, NormalizeGradientSumsSpec,
    NormalizeGradientSpec, UpsamplingSpec, UpsamplingGradientSpec, SquaredErrorSpec,
    SquaredErrorGradientSpec, AbsoluteErrorSpec, BinaryCrossentropySpec,
    BinaryCrossentropyGradientSpec, BinaryMatchSpec, PowerSumSpec, WeightedSumSpec,
    PenaltyGradientSpec, ClipFactorSpec, ScaleBySpec, ClampSpec, SgdSpec, AdamSpec, RmspropSpec>;

/// "matmul 64x256x784" and so on, for tables and messages.
[[nodiscard]] std::string describe(const KernelSpec& spec);

}  // namespace meshwork

#include "runtime/device/kernel_work.h"

namespace meshwork {
namespace {

constexpr double f32 = 4, f64 = 8;

double product(std::initializer_list<std::int64_t> factors) {
  double result = 1;
  for (const std::int64_t factor : factors) result *= static_cast<double>(factor);
  return result;
}

KernelWork moved(double bytes) {
  return {0, bytes};
}

/// `passes` float32 values for each of `count` elements.
KernelWork passes(double passes, double count) {
  return moved(passes * f32 * count);
}

double elements(const ClassColumns& at) {
  return product({at.rows, at.columns});
}
double target_bytes(const ClassColumns& at) {
  return f32 * (at.target == TargetKind::sparse ? static_cast<double>(at.rows) : elements(at));
}

template <class Shape>
double input_elements(const Shape& at) {
  return product({at.batch, at.rows.input, at.columns.input, at.channels});
}

double output_elements(const ConvolutionShape& at) {
  return product({at.batch, at.rows.output, at.columns.output, at.filters});
}
template <class Shape>
double output_elements(const Shape& at) {
  return product({at.batch, at.rows.output, at.columns.output, at.channels});
}

// All three kernels of a convolution multiply the same pairs.
KernelWork convolution(const ConvolutionShape& at) {
  const double kernel = product({at.rows.window, at.columns.window, at.channels / at.groups});
  return {2 * output_elements(at) * kernel, f32 * (input_elements(at) + output_elements(at) +
                                                   kernel * static_cast<double>(at.filters))};
}

KernelWork pooling(const PoolingShape& at, double output_passes) {
  return passes(1, input_elements(at) + output_passes * output_elements(at));
}

template <class Middle>
double whole(const Middle& s) {
  return product({s.outer, s.middle, s.inner});
}
template <class Middle>
double ends(const Middle& s) {
  return product({s.outer, s.inner});
}

double elements(const NormalizationShape& at) {
  return product({at.rows, at.channels});
}

// One function a specification, in the order of kernels.h.

KernelWork work(const MatmulSpec& s) {
  const double result = product({s.m, s.n});
  return {2 * product({s.m, s.n, s.k}),
          f32 * (product({s.m, s.k}) + product({s.k, s.n}) + result * (s.accumulate ? 2 : 1) +
                 (s.bias ? static_cast<double>(s.n) : 0))};
}
KernelWork work(const BiasAddSpec& s) {
  return passes(1, 2 * product({s.rows, s.columns}) + static_cast<double>(s.columns));
}
KernelWork work(const ColumnSumSpec& s) {
  return passes(1, product({s.rows, s.columns}) + static_cast<double>(s.columns));
}
KernelWork work(const ActivationSpec& s) {
  return passes(2, product({s.count}));
}
KernelWork work(const ActivationGradientSpec& s) {
  return passes(3, product({s.count}));
}
KernelWork work(const RectifySpec& s) {
  return passes(2, product({s.count}));
}
KernelWork work(const RectifyGradientSpec& s) {
  return passes(3, product({s.count}));
}
KernelWork work(const AffineSpec& s) {
  return passes(2, product({s.count}));
}
KernelWork work(const ConvertSpec& s) {
  return moved(product({s.count}) * (f32 + static_cast<double>(element_bytes(s.from))));
}
KernelWork work(const SumSpec& s) {
  return passes(s.inputs + 1, product({s.count}));
}
KernelWork work(const DropoutSpec& s) {
  return passes(2, product({element_count(shape_of(s.block))}));
}
KernelWork work(const ZeroSpec& s) {
  return moved(product({s.bytes}));
}
KernelWork work(const CopySpec& s) {
  double accesses = 0;
  for (const CopyRegion& region : s.regions) {
    accesses += product({element_count(region.extents)}) * (region.add ? 3 : 2);
  }
  return moved(accesses * static_cast<double>(element_bytes(s.type)));
}
KernelWork work(const RowMaximumSpec& s) {
  return passes(1, product({s.rows, s.columns + 1}));
}
KernelWork work(const RowExponentialSpec& s) {
  return passes(2, product({s.rows, s.columns + 1}));
}
KernelWork work(const RowDivideSpec& s) {
  return passes(1, product({s.rows, 2 * s.columns + 1}));
}
KernelWork work(const RowSumSpec& s) {
  return passes(1, product({s.rows, s.columns + 1}));
}
KernelWork work(const RowDotSpec& s) {
  return passes(1, product({s.rows, 2 * s.columns + 1}));
}
KernelWork work(const SoftmaxGradientSpec& s) {
  return passes(1, product({s.rows, 3 * s.columns + 1}));
}
KernelWork work(const LogitStatisticsSpec& s) {
  return moved(f32 * (elements(s.at) + product({s.at.rows, 4})) + target_bytes(s.at));
}
KernelWork work(const LogitLossSpec& s) {
  return passes(3, product({s.rows}));
}
KernelWork work(const LogitGradientSpec& s) {
  return moved(f32 * (2 * elements(s.at) + product({s.at.rows, 4})) + target_bytes(s.at));
}
KernelWork work(const ProbabilityLossSpec& s) {
  return moved(f32 * (elements(s.at) + product({s.at.rows, 2})) + target_bytes(s.at));
}
KernelWork work(const ProbabilityGradientSpec& s) {
  return moved(f32 * (2 * elements(s.at) + product({s.at.rows, 2})) + target_bytes(s.at));
}
KernelWork work(const TargetValueSpec& s) {
  return passes(3, product({s.at.rows}));
}
KernelWork work(const CountAheadSpec& s) {
  return passes(1, elements(s.at) + product({s.at.rows, 3}));
}
KernelWork work(const CountBelowSpec& s) {
  return passes(1, product({s.rows}));
}
KernelWork work(const FirstMaximumSpec& s) {
  return passes(1, elements(s.at) + product({s.at.rows, 2}));
}
KernelWork work(const ConvolutionSpec& s) {
  return convolution(s.at);
}
KernelWork work(const ConvolutionInputGradientSpec& s) {
  return convolution(s.at);
}
KernelWork work(const ConvolutionKernelGradientSpec& s) {
  return convolution(s.at);
}
KernelWork work(const MaximumPoolingSpec& s) {
  KernelWork work = pooling(s.at, 1);
  if (s.winners) {
    work.bytes += output_elements(s.at) * static_cast<double>(element_bytes(winner_type(s.at)));
  }
  return work;
}
KernelWork work(const MaximumPoolingGradientSpec& s) {
  KernelWork work = pooling(s.at, 1);
  work.bytes += output_elements(s.at) * static_cast<double>(element_bytes(winner_type(s.at)));
  return work;
}
KernelWork work(const AveragePoolingSpec& s) {
  return pooling(s.at, 1);
}
KernelWork work(const AveragePoolingGradientSpec& s) {
  return pooling(s.at, 1);
}
KernelWork work(const MiddleSumSpec& s) {
  return passes(1, whole(s) + ends(s));
}
KernelWork work(const MiddleBroadcastSpec& s) {
  return passes(1, whole(s) + ends(s));
}
KernelWork work(const MiddleMaximumSpec& s) {
  return passes(1, whole(s) + ends(s));
}
KernelWork work(const MiddleTiesSpec& s) {
  return passes(1, whole(s) + 2 * ends(s));
}
KernelWork work(const MiddleMaximumGradientSpec& s) {
  return passes(1, 2 * whole(s) + 3 * ends(s));
}
KernelWork work(const ChannelMomentsSpec& s) {
  return moved(f32 * product({s.rows, s.channels}) + f64 * product({2, s.channels}));
}
KernelWork work(const ChannelStatisticsSpec& s) {
  return moved((2 * f64 + 6 * f32) * product({s.channels}));
}
KernelWork work(const InverseDeviationSpec& s) {
  return passes(2, product({s.channels}));
}
KernelWork work(const NormalizeSpec& s) {
  return passes(2, elements(s.at));
}
KernelWork work(const NormalizeGradientSumsSpec& s) {
  return passes(2, elements(s.at));
}
KernelWork work(const NormalizeGradientSpec& s) {
  return passes(3, elements(s.at));
}
KernelWork work(const UpsamplingSpec& s) {
  return passes(1, input_elements(s.at) + output_elements(s.at));
}
KernelWork work(const UpsamplingGradientSpec& s) {
  return passes(1, input_elements(s.at) + output_elements(s.at));
}
KernelWork work(const SquaredErrorSpec& s) {
  return passes(2, product({s.count}));
}
KernelWork work(const SquaredErrorGradientSpec& s) {
  return passes(3, product({s.count}));
}
KernelWork work(const AbsoluteErrorSpec& s) {
  return passes(2, product({s.count}));
}
KernelWork work(const BinaryCrossentropySpec& s) {
  return passes(2, product({s.count}));
}
KernelWork work(const BinaryCrossentropyGradientSpec& s) {
  return passes(3, product({s.count}));
}
KernelWork work(const BinaryMatchSpec& s) {
  return passes(2, product({s.count}));
}
KernelWork work(const PowerSumSpec& s) {
  return passes(1, product({s.count}));
}
KernelWork work(const WeightedSumSpec& s) {
  return moved(f64 * static_cast<double>(s.factors.size() + 1));
}
KernelWork work(const PenaltyGradientSpec& s) {
  return passes(3, product({s.count}));
}
KernelWork work(const ClipFactorSpec&) {
  return moved(f32 + f64);
}
KernelWork work(const ScaleBySpec& s) {
  return passes(2, product({s.count}));
}
KernelWork work(const ClampSpec& s) {
  return passes(2, product({s.count}));
}
KernelWork work(const SgdSpec& s) {
  return passes(s.momentum != 0 ? 5 : 3, product({s.count}));
}
KernelWork work(const AdamSpec& s) {
  return passes(s.amsgrad ? 9 : 7, product({s.count}));
}
KernelWork work(const RmspropSpec& s) {
  return passes(5 + (s.momentum != 0 ? 2 : 0) + (s.centered ? 2 : 0), product({s.count}));
}

}  // namespace

KernelWork work_of(const KernelSpec& spec) {
  return std::visit([](const auto& one) { return work(one); }, spec);
}

}  // namespace meshwork

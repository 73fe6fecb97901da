#include "runtime/device/kernel_work.h"

#include <concepts>
#include <initializer_list>

#include "runtime/device/update_functions.h"

namespace meshwork {
namespace {

constexpr double bf16 = 2, f32 = 4, f64 = 8;

template <class Spec, class... Specs>
concept OneOf = (std::same_as<Spec, Specs> || ...);

double product(std::initializer_list<std::int64_t> factors) {
  double result = 1;
  for (const std::int64_t factor : factors) result *= static_cast<double>(factor);
  return result;
}

KernelWork moved(double bytes) {
  return {0, bytes};
}

/// `passes` float32 values for each of `count` elements.
KernelWork passes(int passes, auto count) {
  return moved(passes * f32 * static_cast<double>(count));
}

/// `columns` float32 values for each of `rows` rows.
KernelWork rows(std::int64_t rows, std::int64_t columns) {
  return passes(1, product({rows, columns}));
}

double elements(const ClassColumns& at) {
  return product({at.rows, at.columns});
}
double target_elements(const ClassColumns& at) {
  return at.target == TargetKind::sparse ? static_cast<double>(at.rows) : elements(at);
}

double input_elements(const auto& at) {
  return product({at.batch, at.rows.input, at.columns.input, at.channels});
}
double output_elements(const ConvolutionShape& at) {
  return product({at.batch, at.rows.output, at.columns.output, at.filters});
}
double output_elements(const auto& at) {
  return product({at.batch, at.rows.output, at.columns.output, at.channels});
}

KernelWork pooling(const PoolingShape& at, bool winners) {
  KernelWork work = passes(1, input_elements(at) + output_elements(at));
  if (winners) {
    work.bytes += output_elements(at) * static_cast<double>(element_bytes(winner_type(at)));
  }
  return work;
}

KernelWork middle(const auto& s, int whole, int ends) {
  return passes(1, product({s.outer, s.inner, whole * s.middle + ends}));
}

// ---- what kernels do alike, in the order of kernels.h -------------------------------------------

KernelWork work(const MatmulSpec& s) {
  const double result = product({s.m, s.n});
  const double factors = product({s.m, s.k}) + product({s.k, s.n});
  const bool derives = s.derivative != Activation::linear;
  const double results = result * (s.accumulate || (derives && !s.mask) ? 2 : 1) +
                         (s.bias || s.column_sums ? static_cast<double>(s.n) : 0);
  return {2 * product({s.m, s.n, s.k}),
          (s.narrow ? bf16 : f32) * factors + f32 * results +
              (s.mask ? product({s.m, relu_mask_row_bytes(s.n)}) : 0),
          s.precision};
}
KernelWork work(const BiasAddSpec& s) {
  return rows(2 * s.rows + 1, s.columns);
}
KernelWork work(const ColumnSumSpec& s) {
  return rows(s.rows + 1, s.columns);
}
KernelWork work(
    const OneOf<ActivationSpec, RectifySpec, AffineSpec, SquaredErrorSpec, AbsoluteErrorSpec,
                BinaryCrossentropySpec, BinaryMatchSpec, ScaleBySpec, ClampSpec> auto& s) {
  return passes(2, s.count);
}
KernelWork work(const OneOf<ActivationGradientSpec, RectifyGradientSpec, SquaredErrorGradientSpec,
                            BinaryCrossentropyGradientSpec, PenaltyGradientSpec> auto& s) {
  return passes(3, s.count);
}
KernelWork work(const ConvertSpec& s) {
  return moved(static_cast<double>(s.count) * (f32 + static_cast<double>(element_bytes(s.from))));
}
KernelWork work(const NarrowSpec& s) {
  return moved(static_cast<double>(s.count) * (f32 + bf16));
}
KernelWork work(const SumSpec& s) {
  return passes(s.inputs + 1, s.count);
}
KernelWork work(const DropoutSpec& s) {
  return passes(2, element_count(shape_of(s.block)));
}
KernelWork work(const ZeroSpec& s) {
  return moved(static_cast<double>(s.bytes));
}
KernelWork work(const CopySpec& s) {
  double accesses = 0;
  for (const CopyRegion& region : s.regions) {
    accesses += static_cast<double>(element_count(region.extents)) * (region.add ? 3 : 2);
  }
  return moved(accesses * static_cast<double>(element_bytes(s.type)));
}
KernelWork work(const GatherSpec& s) {
  return moved(product({s.rows, s.columns}) * (f32 + static_cast<double>(element_bytes(s.from))) +
               f64 * static_cast<double>(s.rows));
}
KernelWork work(const OneOf<RowMaximumSpec, RowSumSpec> auto& s) {
  return rows(s.rows, s.columns + 1);
}
KernelWork work(const RowExponentialSpec& s) {
  return rows(s.rows, 2 * s.columns + 2);
}
KernelWork work(const SoftmaxSpec& s) {
  return rows(s.rows, 2 * s.columns);
}
KernelWork work(const OneOf<RowDivideSpec, RowDotSpec> auto& s) {
  return rows(s.rows, 2 * s.columns + 1);
}
KernelWork work(const SoftmaxGradientSpec& s) {
  return rows(s.rows, 3 * s.columns + (s.whole ? 0 : 1));
}
KernelWork work(const LogitStatisticsSpec& s) {
  return passes(1, elements(s.at) + target_elements(s.at) + product({s.at.rows, 4}));
}
KernelWork work(const LogitLossSpec& s) {
  return passes(3, s.rows);
}
KernelWork work(const LogitGradientSpec& s) {
  return passes(1, 2 * elements(s.at) + target_elements(s.at) + product({s.at.rows, 4}));
}
KernelWork work(const ProbabilityLossSpec& s) {
  return passes(1, elements(s.at) + target_elements(s.at) + product({s.at.rows, 2}));
}
KernelWork work(const ProbabilityGradientSpec& s) {
  return passes(1, 2 * elements(s.at) + target_elements(s.at) + product({s.at.rows, 2}));
}
KernelWork work(const TargetValueSpec& s) {
  return passes(3, s.at.rows);
}
KernelWork work(const CountAheadSpec& s) {
  return rows(s.at.rows, s.at.columns + 3);
}
KernelWork work(const CountBelowSpec& s) {
  return passes(1, s.rows);
}
KernelWork work(const FirstMaximumSpec& s) {
  return rows(s.at.rows, s.at.columns + 2);
}
KernelWork work(const ClassComparisonSpec& s) {
  return passes(1, (s.gradient ? 2 : 1) * elements(s.at) + target_elements(s.at));
}
// All three multiply the same pairs.
KernelWork work(const OneOf<ConvolutionSpec, ConvolutionInputGradientSpec,
                            ConvolutionKernelGradientSpec> auto& s) {
  const ConvolutionShape& at = s.at;
  const double kernel = product({at.rows.window, at.columns.window, at.channels / at.groups});
  return {
      2 * output_elements(at) * kernel,
      f32 * (input_elements(at) + output_elements(at) + kernel * static_cast<double>(at.filters)),
      s.precision};
}
KernelWork work(const MaximumPoolingSpec& s) {
  return pooling(s.at, s.winners);
}
KernelWork work(const MaximumPoolingGradientSpec& s) {
  return pooling(s.at, true);
}
KernelWork work(const OneOf<AveragePoolingSpec, AveragePoolingGradientSpec> auto& s) {
  return pooling(s.at, false);
}
KernelWork work(const OneOf<MiddleSumSpec, MiddleBroadcastSpec, MiddleMaximumSpec> auto& s) {
  return middle(s, 1, 1);
}
KernelWork work(const MiddleTiesSpec& s) {
  return middle(s, 1, 2);
}
KernelWork work(const MiddleMaximumGradientSpec& s) {
  return middle(s, 2, 3);
}
KernelWork work(const ChannelMomentsSpec& s) {
  return moved(f32 * product({s.rows, s.channels}) + f64 * product({2, s.channels}));
}
KernelWork work(const ChannelStatisticsSpec& s) {
  return moved((2 * f64 + 6 * f32) * static_cast<double>(s.channels));
}
KernelWork work(const InverseDeviationSpec& s) {
  return passes(2, s.channels);
}
KernelWork work(const OneOf<NormalizeSpec, NormalizeGradientSumsSpec> auto& s) {
  return rows(2 * s.at.rows, s.at.channels);
}
KernelWork work(const NormalizeGradientSpec& s) {
  return rows(3 * s.at.rows, s.at.channels);
}
KernelWork work(const OneOf<UpsamplingSpec, UpsamplingGradientSpec> auto& s) {
  return passes(1, input_elements(s.at) + output_elements(s.at));
}
KernelWork work(const PowerSumSpec& s) {
  return passes(1, s.count);
}
KernelWork work(const WeightedSumSpec& s) {
  return moved(f64 * static_cast<double>(s.factors.size() + 1));
}
KernelWork work(const ClipFactorSpec&) {
  return moved(f32 + f64);
}
KernelWork work(const OneOf<SgdSpec, AdamSpec, RmspropSpec> auto& s) {
  return with_update_form(s, [&]<class Form>(std::type_identity<Form>) {
    return moved(static_cast<double>(bytes_a_parameter<Form>(s.narrows) * s.count));
  });
}

}  // namespace

KernelWork work_of(const KernelSpec& spec) {
  return std::visit([](const auto& one) { return work(one); }, spec);
}

}  // namespace meshwork

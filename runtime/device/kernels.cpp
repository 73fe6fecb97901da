#include "runtime/device/kernels.h"

#include <fmt/format.h>

#include <array>
#include <initializer_list>
#include <string_view>
#include <utility>

namespace meshwork {

namespace {

std::string_view name_of(Activation activation) {
  constexpr std::array<std::string_view, 6> names{"linear",  "relu", "gelu",
                                                  "sigmoid", "tanh", "softmax"};
  return names[static_cast<std::size_t>(activation)];
}

/// " name" for anything but linear.
std::string with_activation(Activation activation) {
  return activation == Activation::linear ? "" : fmt::format(" {}", name_of(activation));
}

std::string with_rows(std::string_view name, std::int64_t rows, std::int64_t columns) {
  return fmt::format("{} {}x{}", name, rows, columns);
}

std::string with_classes(std::string_view name, const ClassColumns& at) {
  std::string text = with_rows(name, at.rows, at.columns);
  if (at.columns != at.classes) {
    text += fmt::format(" at {} of {}", at.first_class, at.classes);
  }
  return text;
}

std::string with_count(std::string_view name, std::int64_t count) {
  return fmt::format("{} {}", name, count);
}

/// " by 6x6 stride 2x2 dilation 1x2": how windows slide over rows and columns.
std::string with_windows(const WindowDimension& rows, const WindowDimension& columns) {
  std::string text = fmt::format(" by {}x{}", rows.window, columns.window);
  if (rows.stride != 1 || columns.stride != 1) {
    text += fmt::format(" stride {}x{}", rows.stride, columns.stride);
  }
  if (rows.dilation != 1 || columns.dilation != 1) {
    text += fmt::format(" dilation {}x{}", rows.dilation, columns.dilation);
  }
  return text;
}

/// " in bfloat16" for anything but float32.
std::string with_precision(Precision precision) {
  return precision == Precision::float32 ? "" : fmt::format(" in {}", name_of(precision));
}

std::string with_convolution(std::string_view name, const ConvolutionShape& at) {
  return fmt::format("{} {}x{}x{}x{} to {}x{}x{}{}", name, at.batch, at.rows.input,
                     at.columns.input, at.channels, at.rows.output, at.columns.output, at.filters,
                     with_windows(at.rows, at.columns)) +
         (at.groups == 1 ? "" : fmt::format(" in {} groups", at.groups));
}

std::string with_pooling(std::string_view name, const PoolingShape& at) {
  return fmt::format("{} {}x{}x{}x{} to {}x{}{}", name, at.batch, at.rows.input, at.columns.input,
                     at.channels, at.rows.output, at.columns.output,
                     with_windows(at.rows, at.columns));
}

std::string with_middle(std::string_view name, std::int64_t outer, std::int64_t middle,
                        std::int64_t inner) {
  return fmt::format("{} {}x{}x{}", name, outer, middle, inner);
}

std::string with_upsampling(std::string_view name, const UpsamplingShape& at) {
  return fmt::format("{} {} {}x{}x{}x{} to {}x{}",
                     at.interpolation == Interpolation::nearest ? "nearest" : "bilinear", name,
                     at.batch, at.rows.input, at.columns.input, at.channels, at.rows.output,
                     at.columns.output);
}

/// " word" for each that is set.
std::string flags(std::initializer_list<std::pair<bool, std::string_view>> words) {
  std::string text;
  for (const auto& [set, word] : words) {
    if (set) text += fmt::format(" {}", word);
  }
  return text;
}

bool scales(const auto& spec) {
  return spec.scale != 1 || spec.offset != 0;
}

// What each kernel is called; one function a specification, in the order of the header.

std::string text(const MatmulSpec& s) {
  std::string along = with_activation(s.activation);
  if (s.derivative != Activation::linear) along += with_activation(s.derivative) + " gradient";
  along += flags({{s.column_sums, "with column sums"},
                  {writes_mask(s), "to a mask"},
                  {s.mask && !writes_mask(s), "from a mask"}});
  return fmt::format(
      "matmul{}{} {}x{}x{}{}{}{}",
      s.transpose_a || s.transpose_b
          ? fmt::format(" {}{}", s.transpose_a ? 't' : 'n', s.transpose_b ? 't' : 'n')
          : "",
      flags({{s.accumulate, "add"}}), s.m, s.n, s.k, flags({{s.bias, "bias"}}), along,
      with_precision(s.precision) + flags({{s.narrow, "as stored"}}));
}
std::string text(const BiasAddSpec& s) {
  return with_rows("bias add", s.rows, s.columns) + with_activation(s.activation);
}
std::string text(const ColumnSumSpec& s) {
  return with_rows("column sum", s.rows, s.columns);
}
std::string text(const ActivationSpec& s) {
  return with_count(name_of(s.activation), s.count);
}
std::string text(const ActivationGradientSpec& s) {
  return fmt::format("{} gradient {}{}", name_of(s.activation), s.count,
                     flags({{s.divisor != 1, "divided"}}));
}
std::string text(const RectifySpec& s) {
  return with_count("rectify", s.count);
}
std::string text(const RectifyGradientSpec& s) {
  return with_count("rectify gradient", s.count);
}
std::string text(const AffineSpec& s) {
  return with_count("affine", s.count);
}
std::string text(const ConvertSpec& s) {
  return fmt::format("convert {} from {}{}", s.count, name_of(s.from),
                     flags({{scales(s), "scaled"}}));
}
std::string text(const NarrowSpec& s) {
  return with_count("narrow", s.count);
}
std::string text(const SumSpec& s) {
  return fmt::format("sum of {} tensors {}", s.inputs, s.count);
}
std::string text(const DropoutSpec& s) {
  return fmt::format("dropout {} {}", s.rate, to_string(shape_of(s.block)));
}
std::string text(const ZeroSpec& s) {
  return fmt::format("zero {} bytes", s.bytes);
}
std::string text(const CopySpec& s) {
  std::int64_t count = 0;
  bool adds = false;
  for (const CopyRegion& region : s.regions) {
    count += element_count(region.extents);
    adds = adds || region.add;
  }
  return fmt::format("copy{} {} {} in {} region{}", adds ? " and add" : "", count, name_of(s.type),
                     s.regions.size(), s.regions.size() == 1 ? "" : "s");
}
std::string text(const GatherSpec& s) {
  return fmt::format("{} from {}{}", with_rows("gather", s.rows, s.columns), name_of(s.from),
                     flags({{scales(s), "scaled"}}));
}
std::string text(const RowMaximumSpec& s) {
  return with_rows("row maximum", s.rows, s.columns);
}
std::string text(const RowExponentialSpec& s) {
  return with_rows("row exponential", s.rows, s.columns);
}
std::string text(const RowDivideSpec& s) {
  return with_rows("row divide", s.rows, s.columns);
}
std::string text(const RowSumSpec& s) {
  return with_rows("row sum", s.rows, s.columns);
}
std::string text(const RowDotSpec& s) {
  return with_rows("row dot", s.rows, s.columns);
}
std::string text(const SoftmaxGradientSpec& s) {
  return with_rows("softmax gradient", s.rows, s.columns) + flags({{s.whole, "whole"}});
}
std::string text(const SoftmaxSpec& s) {
  return with_rows("softmax", s.rows, s.columns);
}
std::string text(const LogitStatisticsSpec& s) {
  return with_classes("logit statistics", s.at);
}
std::string text(const LogitLossSpec& s) {
  return with_count("logit loss", s.rows);
}
std::string text(const LogitGradientSpec& s) {
  return with_classes("logit gradient", s.at);
}
std::string text(const ProbabilityLossSpec& s) {
  return with_classes("probability loss", s.at);
}
std::string text(const ProbabilityGradientSpec& s) {
  return with_classes("probability gradient", s.at);
}
std::string text(const TargetValueSpec& s) {
  return with_classes("target value", s.at);
}
std::string text(const CountAheadSpec& s) {
  return with_classes("count ahead", s.at);
}
std::string text(const CountBelowSpec& s) {
  return fmt::format("count below {} {}", s.k, s.rows);
}
std::string text(const FirstMaximumSpec& s) {
  return with_classes("first maximum", s.at);
}
std::string text(const ClassComparisonSpec& s) {
  const bool loss = s.crossentropy != Crossentropy::none;
  return with_classes("class comparison", s.at) +
         flags({{loss, "loss"}, {s.gradient, "gradient"}, {!s.within.empty(), "rank"}});
}
std::string text(const ConvolutionSpec& s) {
  return with_convolution("convolution", s.at) + flags({{s.bias, "bias"}}) +
         with_activation(s.activation) + with_precision(s.precision);
}
std::string text(const ConvolutionInputGradientSpec& s) {
  return with_convolution("convolution input gradient", s.at) + with_precision(s.precision);
}
std::string text(const ConvolutionKernelGradientSpec& s) {
  return with_convolution("convolution kernel gradient", s.at) + with_precision(s.precision);
}
std::string text(const MaximumPoolingSpec& s) {
  return with_pooling("maximum pooling", s.at);
}
std::string text(const MaximumPoolingGradientSpec& s) {
  return with_pooling("maximum pooling gradient", s.at);
}
std::string text(const AveragePoolingSpec& s) {
  return with_pooling("average pooling", s.at);
}
std::string text(const AveragePoolingGradientSpec& s) {
  return with_pooling("average pooling gradient", s.at);
}
std::string text(const MiddleSumSpec& s) {
  return with_middle("middle sum", s.outer, s.middle, s.inner);
}
std::string text(const MiddleBroadcastSpec& s) {
  return with_middle("middle broadcast", s.outer, s.middle, s.inner);
}
std::string text(const MiddleMaximumSpec& s) {
  return with_middle("middle maximum", s.outer, s.middle, s.inner);
}
std::string text(const MiddleTiesSpec& s) {
  return with_middle("middle ties", s.outer, s.middle, s.inner);
}
std::string text(const MiddleMaximumGradientSpec& s) {
  return with_middle("middle maximum gradient", s.outer, s.middle, s.inner);
}
std::string text(const ChannelMomentsSpec& s) {
  return with_rows("channel moments", s.rows, s.channels);
}
std::string text(const ChannelStatisticsSpec& s) {
  return with_count("channel statistics", s.channels);
}
std::string text(const InverseDeviationSpec& s) {
  return with_count("inverse deviation", s.channels);
}
std::string text(const NormalizeSpec& s) {
  return with_rows("normalize", s.at.rows, s.at.channels) + with_activation(s.at.activation);
}
std::string text(const NormalizeGradientSumsSpec& s) {
  return with_rows("normalize gradient sums", s.at.rows, s.at.channels) +
         with_activation(s.at.activation);
}
std::string text(const NormalizeGradientSpec& s) {
  return with_rows("normalize gradient", s.at.rows, s.at.channels) + flags({{s.frozen, "frozen"}}) +
         with_activation(s.at.activation);
}
std::string text(const UpsamplingSpec& s) {
  return with_upsampling("upsampling", s.at);
}
std::string text(const UpsamplingGradientSpec& s) {
  return with_upsampling("upsampling gradient", s.at);
}
std::string text(const SquaredErrorSpec& s) {
  return with_count("squared error", s.count);
}
std::string text(const SquaredErrorGradientSpec& s) {
  return with_count("squared error gradient", s.count);
}
std::string text(const AbsoluteErrorSpec& s) {
  return with_count("absolute error", s.count);
}
std::string text(const BinaryCrossentropySpec& s) {
  return with_count("binary crossentropy", s.count) + flags({{s.from_logits, "from logits"}});
}
std::string text(const BinaryCrossentropyGradientSpec& s) {
  return with_count("binary crossentropy gradient", s.count) +
         flags({{s.from_logits, "from logits"}});
}
std::string text(const BinaryMatchSpec& s) {
  return with_count("binary match", s.count);
}
std::string text(const PowerSumSpec& s) {
  return fmt::format("sum of {} {}", s.power == 1 ? "magnitudes" : "squares", s.count);
}
std::string text(const WeightedSumSpec& s) {
  return fmt::format("weighted sum {}", s.factors.size());
}
std::string text(const PenaltyGradientSpec& s) {
  return with_count("penalty gradient", s.count);
}
std::string text(const ClipFactorSpec& s) {
  return fmt::format("clip factor {}{}", s.clip, flags({{s.global, "global"}}));
}
std::string text(const ScaleBySpec& s) {
  return with_count("scale", s.count);
}
std::string text(const ClampSpec& s) {
  return with_count("clamp", s.count);
}
std::string text(const SgdSpec& s) {
  return with_count("sgd", s.count) +
         flags({{s.momentum != 0, s.nesterov ? "nesterov" : "momentum"},
                {s.decay != 0, "decay"},
                {s.scaled, "scaled"},
                {s.narrows, "narrows"}});
}
std::string text(const AdamSpec& s) {
  return with_count("adam", s.count) + flags({{s.amsgrad, "amsgrad"},
                                              {s.decay != 0, "decay"},
                                              {s.scaled, "scaled"},
                                              {s.narrows, "narrows"}});
}
std::string text(const RmspropSpec& s) {
  return with_count("rmsprop", s.count) + flags({{s.momentum != 0, "momentum"},
                                                 {s.centered, "centered"},
                                                 {s.decay != 0, "decay"},
                                                 {s.scaled, "scaled"},
                                                 {s.narrows, "narrows"}});
}

}  // namespace

std::string describe(const KernelSpec& spec) {
  return std::visit([](const auto& one) { return text(one); }, spec);
}

}  // namespace meshwork

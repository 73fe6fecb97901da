#include "runtime/device/kernel_checks.h"

#include <limits>
#include <string_view>
#include <variant>

#include "collectives/error.h"

namespace meshwork {

namespace {

void check_elementwise(Activation activation, std::string_view kernel) {
  if (activation == Activation::softmax) fail("{}: softmax is not elementwise", kernel);
}

void check_fused(Activation activation, const KernelSpec& spec) {
  if (activation != Activation::linear && activation != Activation::relu) {
    internal_error(
        fmt::format("{} fuses an activation that is neither linear nor relu", describe(spec)));
  }
}

void check_windows(const WindowDimension& rows, const WindowDimension& columns,
                   const KernelSpec& spec) {
  for (const WindowDimension& d : {rows, columns}) {
    if (d.input < 0 || d.output < 0 || d.window < 1 || d.stride < 1 || d.dilation < 1) {
      internal_error(fmt::format(
          "{} has a window, stride or dilation below 1, or a negative length", describe(spec)));
    }
  }
}

void check_convolution(const ConvolutionShape& at, const KernelSpec& spec) {
  check_windows(at.rows, at.columns, spec);
  if (at.batch < 0 || at.channels < 0 || at.filters < 0 || at.groups < 1 ||
      at.channels % at.groups != 0 || at.filters % at.groups != 0) {
    internal_error(
        fmt::format("{} has channels or filters that its groups do not divide", describe(spec)));
  }
}

void check_pooling(const PoolingShape& at, const KernelSpec& spec) {
  check_windows(at.rows, at.columns, spec);
  if (at.rows.window > std::numeric_limits<std::int32_t>::max() / at.columns.window) {
    fail("{}: a window has more places than 32 bits count", describe(spec));
  }
}

void check_sparse(const ClassColumns& columns, std::string_view kernel) {
  if (columns.target != TargetKind::sparse) {
    internal_error(fmt::format("{} needs class numbers as targets", kernel));
  }
}

// Most specifications cannot be wrong.
void check_one(const auto&) {}

void check_one(const MatmulSpec& spec) {
  if (spec.m < 0 || spec.n < 0 || spec.k < 0) {
    internal_error(fmt::format("{} has a negative length", describe(spec)));
  }
  check_fused(spec.activation, spec);
  if (spec.narrow && spec.precision != Precision::bfloat16) {
    internal_error(fmt::format("{} has narrow operands and is not in bfloat16", describe(spec)));
  }
  if (spec.derivative == Activation::softmax) {
    fail("{}: softmax is not elementwise", describe(spec));
  }
  const bool forward = spec.bias || spec.activation != Activation::linear;
  const bool derives = spec.derivative != Activation::linear;
  if (spec.accumulate && forward) {
    internal_error(fmt::format("{} accumulates and has a bias or an activation", describe(spec)));
  }
  if (int{spec.accumulate} + int{forward} + int{derives} + int{spec.column_sums} > 1) {
    internal_error(fmt::format(
        "{} takes along what goes together with nothing else: a gradient, column sums, or what it "
        "adds to",
        describe(spec)));
  }
  if (spec.column_sums && spec.transpose_b) {
    internal_error(fmt::format("{} sums the columns of a transposed factor", describe(spec)));
  }
  if (spec.column_sums && spec.precision != Precision::float32) {
    internal_error(fmt::format("{} sums the columns of a rounded factor", describe(spec)));
  }
  if (spec.mask && spec.activation != Activation::relu && spec.derivative != Activation::relu) {
    internal_error(fmt::format("{} has a mask without relu", describe(spec)));
  }
}
void check_one(const BiasAddSpec& spec) {
  check_elementwise(spec.activation, "bias add");
}
void check_one(const ActivationSpec& spec) {
  check_elementwise(spec.activation, "activation");
}
void check_one(const ActivationGradientSpec& spec) {
  check_elementwise(spec.activation, "activation gradient");
  if (!(spec.divisor > 0.0f)) {
    internal_error(fmt::format("{} is divided by {}", describe(spec), spec.divisor));
  }
}
void check_one(const SumSpec& spec) {
  if (spec.inputs < 1) internal_error(fmt::format("a sum of {} tensors", spec.inputs));
}
void check_one(const DropoutSpec& spec) {
  if (spec.block.size() != spec.global.size()) {
    internal_error(fmt::format("dropout of a block of {} dimensions in a tensor of {}",
                               spec.block.size(), spec.global.size()));
  }
  if (!(spec.rate >= 0.0f && spec.rate <= 1.0f)) {
    fail("dropout: the rate is {}; it lies between 0 and 1", spec.rate);
  }
}
void check_one(const CopySpec& spec) {
  for (const CopyRegion& region : spec.regions) {
    if (region.source_strides.size() != region.extents.size() ||
        region.destination_strides.size() != region.extents.size()) {
      internal_error("a region to copy has not one stride a dimension");
    }
    if (region.add && spec.type != ElementType::float32 && spec.type != ElementType::float64) {
      internal_error(fmt::format("no sum of regions of type {}", name_of(spec.type)));
    }
  }
}
void check_one(const TargetValueSpec& spec) {
  check_sparse(spec.at, "target value");
}
void check_one(const CountAheadSpec& spec) {
  check_sparse(spec.at, "count ahead");
}
void check_one(const ClassComparisonSpec& spec) {
  if (spec.at.first_class != 0 || spec.at.columns != spec.at.classes) {
    internal_error(fmt::format("{} has not all classes", describe(spec)));
  }
  if (spec.gradient && spec.crossentropy == Crossentropy::none) {
    internal_error(fmt::format("{} has a gradient of no loss", describe(spec)));
  }
}
void check_one(const ConvolutionSpec& spec) {
  check_convolution(spec.at, spec);
  check_fused(spec.activation, spec);
}
void check_one(const ConvolutionInputGradientSpec& spec) {
  check_convolution(spec.at, spec);
}
void check_one(const ConvolutionKernelGradientSpec& spec) {
  check_convolution(spec.at, spec);
}
void check_one(const MaximumPoolingSpec& spec) {
  check_pooling(spec.at, spec);
}
void check_one(const MaximumPoolingGradientSpec& spec) {
  check_pooling(spec.at, spec);
}
void check_one(const AveragePoolingSpec& spec) {
  check_pooling(spec.at, spec);
}
void check_one(const AveragePoolingGradientSpec& spec) {
  check_pooling(spec.at, spec);
}
void check_one(const NormalizeSpec& spec) {
  check_fused(spec.at.activation, spec);
}
void check_one(const NormalizeGradientSumsSpec& spec) {
  check_fused(spec.at.activation, spec);
}
void check_one(const NormalizeGradientSpec& spec) {
  check_fused(spec.at.activation, spec);
}
void check_one(const PowerSumSpec& spec) {
  if (spec.power != 1 && spec.power != 2) {
    internal_error(fmt::format("a sum of powers {}; there are 1 and 2", spec.power));
  }
}

}  // namespace

void check(const KernelSpec& spec) {
  std::visit([](const auto& one) { check_one(one); }, spec);
}

}  // namespace meshwork

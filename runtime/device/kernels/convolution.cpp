#include "runtime/device/kernels/convolution.h"

#include "collectives/error.h"
#include "runtime/device/convolution_counts.h"

namespace meshwork {

std::string ConvolutionShape::text(std::string_view name, Precision precision) const {
  const std::vector<WindowDimension> windows = dimensions_of(*this);
  return fmt::format("{} {}x{}x{} to {}x{}", name, batch,
                     spec::lengths(windows, &WindowDimension::input), channels,
                     spec::lengths(windows, &WindowDimension::output), filters) +
         spec::windows(windows) + (groups == 1 ? "" : fmt::format(" in {} groups", groups)) +
         spec::in_precision(precision);
}

KernelWork ConvolutionShape::work(Precision precision) const {
  const double input = spec::product({batch, planes.input, rows.input, columns.input, channels});
  const double output = spec::product({batch, planes.output, rows.output, columns.output, filters});
  const double kernel =
      spec::product({planes.window, rows.window, columns.window, channels / groups});
  return {2 * output * kernel, spec::f32 * (input + output + kernel * static_cast<double>(filters)),
          precision};
}

void ConvolutionShape::check(const std::string& kernel) const {
  spec::check_windows(dimensions_of(*this), kernel);
  spec::require(batch >= 0 && channels >= 0 && filters >= 0 && groups >= 1 &&
                    channels % groups == 0 && filters % groups == 0,
                kernel, "has channels or filters that its groups do not divide");
}

std::string ConvolutionShape::details() const {
  return planes.padding == 0 && rows.padding == 0 && columns.padding == 0
             ? ""
             : " padding " + spec::lengths(dimensions_of(*this), &WindowDimension::padding);
}

std::string ConvolutionSpec::text() const {
  return at.text("convolution", Precision::float32) + spec::words({{bias, "bias"}}) +
         spec::activated(activation) + spec::in_precision(precision);
}

void ConvolutionSpec::check() const {
  at.check(text());
  spec::require_fused(activation, text());
}

std::vector<std::int64_t> ConvolutionSpec::operand_counts() const {
  std::vector<std::int64_t> counts{input_count(at), kernel_count(at)};
  if (bias) counts.push_back(at.filters);
  counts.push_back(output_count(at));
  return counts;
}

std::vector<std::int64_t> ConvolutionInputGradientSpec::operand_counts() const {
  return {output_count(at), kernel_count(at), input_count(at)};
}

std::vector<std::int64_t> ConvolutionKernelGradientSpec::operand_counts() const {
  return {input_count(at), output_count(at), kernel_count(at)};
}

}  // namespace meshwork

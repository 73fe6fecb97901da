#include "runtime/device/kernels/elementwise.h"

#include "collectives/error.h"

namespace meshwork {

namespace {

std::string with_alpha(Activation activation, float alpha) {
  const auto name = std::string(name_of(activation));
  return alpha == 1 ? name : name + fmt::format("({})", alpha);
}

}  // namespace

std::string ActivationSpec::text() const {
  return spec::sized(with_alpha(activation, alpha), {count});
}

std::string ActivationGradientSpec::text() const {
  return spec::sized(with_alpha(activation, alpha) + " gradient", {count}) +
         spec::words({{divisor != 1, "divided"}});
}

void ActivationGradientSpec::check() const {
  spec::require_elementwise(activation, "activation gradient");
  spec::require(divisor > 0.0f, text(), fmt::format("is divided by {}", divisor));
}

std::string ConvertSpec::text() const {
  return fmt::format("convert {} ", count) + spec::converted(from, to, scale, offset);
}

KernelWork ConvertSpec::work() const {
  return {0, static_cast<double>(count * (element_bytes(from) + element_bytes(to)))};
}

void ConvertSpec::check() const {
  spec::require_convertible(text(), to, scale, offset);
}

std::string SumSpec::text() const {
  return fmt::format("sum of {} tensors {}", inputs, count);
}

std::string DropoutSpec::text() const {
  return fmt::format("dropout {} {}", rate, to_string(shape_of(block)));
}

void DropoutSpec::check() const {
  spec::require(block.size() == global.size(), text(), "has a block of other dimensions");
  if (!(rate >= 0.0f && rate <= 1.0f)) {
    fail("dropout: the rate is {}; it lies between 0 and 1", rate);
  }
}

std::string ZeroSpec::text() const {
  return fmt::format("zero {} bytes", bytes);
}

}  // namespace meshwork

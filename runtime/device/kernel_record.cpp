#include "runtime/device/kernel_record.h"

#include <fmt/format.h>

#include <variant>

namespace meshwork {

namespace {

// What `describe` leaves out.

std::string details(const auto&) {
  return "";
}

std::string details(const ConvolutionShape& at) {
  return at.rows.padding == 0 && at.columns.padding == 0
             ? ""
             : fmt::format(" padding {}x{}", at.rows.padding, at.columns.padding);
}
std::string details(const ConvolutionSpec& spec) {
  return details(spec.at);
}
std::string details(const ConvolutionInputGradientSpec& spec) {
  return details(spec.at);
}
std::string details(const ConvolutionKernelGradientSpec& spec) {
  return details(spec.at);
}

}  // namespace

std::string key_of(const KernelSpec& spec) {
  return describe(spec) + std::visit([](const auto& one) { return details(one); }, spec);
}

const std::string* KernelRecord::find(const KernelSpec& spec) const {
  if (chosen.empty()) return nullptr;
  const auto found = chosen.find(key_of(spec));
  return found == chosen.end() ? nullptr : &found->second;
}

}  // namespace meshwork

#include "runtime/device/kernels/page.h"

#include <array>

#include "collectives/error.h"
#include "collectives/joined_text.h"
#include "runtime/device/activation_functions.h"

namespace meshwork {

namespace {

using Elementwise = bodies::ActivationFunctions<void>;

constexpr auto activations = [] {
  std::array<Activation, Elementwise::size + 1> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Activation>(i);
  return all;
}();

}  // namespace

std::span<const Activation> all_activations() {
  return activations;
}

std::string_view name_of(Activation activation) {
  return activation == Activation::softmax
             ? "softmax"
             : Elementwise::names[static_cast<std::size_t>(activation)];
}

bool keeps_order(Activation activation) {
  return activation != Activation::softmax &&
         Elementwise::keeps_order[static_cast<std::size_t>(activation)];
}

bool differentiable_from_output(Activation activation) {
  return activation != Activation::softmax &&
         Elementwise::told_from_output[static_cast<std::size_t>(activation)];
}

namespace spec {

std::string sized(std::string_view name, std::initializer_list<std::int64_t> lengths) {
  return fmt::format("{} {}", name, joined_text(lengths, "x"));
}

std::string words(std::initializer_list<std::pair<bool, std::string_view>> words) {
  std::string text;
  for (const auto& [set, word] : words) {
    if (set) text.append(" ").append(word);
  }
  return text;
}

std::string activated(Activation activation) {
  return words({{activation != Activation::linear, name_of(activation)}});
}

std::string in_precision(Precision precision) {
  return precision == Precision::float32 ? "" : fmt::format(" in {}", name_of(precision));
}

std::string converted(ElementType from, ElementType to, float scale, float offset) {
  return fmt::format("from {}", name_of(from)) +
         (to == ElementType::float32 ? "" : fmt::format(" to {}", name_of(to))) +
         words({{scale != 1 || offset != 0, "scaled"}});
}

void require_elementwise(Activation activation, std::string_view kernel) {
  if (activation == Activation::softmax) fail("{}: softmax is not elementwise", kernel);
}

void require_fused(Activation activation, const std::string& kernel, std::source_location where) {
  require(activation == Activation::linear || activation == Activation::relu, kernel,
          "fuses an activation that is neither linear nor relu", where);
}

void require_convertible(const std::string& kernel, ElementType to, float scale, float offset,
                         std::source_location where) {
  require(
      to == ElementType::float32 || (to == ElementType::int32 && scale == 1.0f && offset == 0.0f),
      kernel, "converts neither to float32 nor, unscaled, to int32", where);
}

void require(bool holds, const std::string& kernel, std::string_view problem,
             std::source_location where) {
  if (!holds) internal_error(fmt::format("{} {}", kernel, problem), where);
}

}  // namespace spec
}  // namespace meshwork

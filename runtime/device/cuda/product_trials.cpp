#include "runtime/device/cuda/product_trials.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/device/cuda/gradient_epilogue.h"
#include "runtime/device/cuda/trial.h"

namespace meshwork::cuda {

namespace {

/// Of a product. Factors that were narrowed and masks lie in the arena, at multiples of 16.
std::vector<TrialOperand> operands_of(const MatmulSpec& spec, std::uint32_t alignment) {
  constexpr auto element = static_cast<std::int64_t>(sizeof(float));
  const std::int64_t packed = alignment % good_alignment;
  const TrialOperand mask{spec.m * relu_mask_row_bytes(spec.n)};
  const TrialOperand row{spec.n * element, packed};
  const TrialOperand result{spec.c_count() * element, packed};
  const auto factor = [&](std::int64_t count) {
    return spec.narrow ? TrialOperand{count * 2} : TrialOperand{count * element, packed};
  };
  std::vector<TrialOperand> operands{factor(spec.a_count()), factor(spec.b_count())};
  if (spec.bias) operands.push_back(row);
  if (spec.derivative != Activation::linear) operands.push_back(spec.mask ? mask : result);
  operands.push_back(result);
  if (writes_mask(spec)) operands.push_back(mask);
  if (spec.column_sums) operands.push_back(row);
  return operands;
}

using Operands = std::vector<TrialOperand>;

/// In bytes of 0x3f a float32 and a bfloat16 are both about 0.75.
constexpr int about_three_quarters = 0x3f;

/// Numbers without a pattern that could be mistaken.
constexpr std::uint32_t scattered(std::int64_t i) {
  return (static_cast<std::uint32_t>(i) * 2654435761U) >> 16;
}

bool keeps_nan(Kernel& product, const MatmulSpec& spec, const Operands& operands,
               const Context& context) {
  Trial trial(operands, context);
  trial.prepare(product);
  trial.fill(0, 0xff);  // all bits set is a NaN
  trial.run(product);
  return std::isnan(trial.read<float>(result_operand(spec), spec.m * spec.n - 1, 1).front());
}

/// The rows that are looked at.
std::array<std::int64_t, 3> some_rows(const MatmulSpec& spec) {
  return {0, spec.m / 2, spec.m - 1};
}

/// Of a product of zeros, whose result is its bias.
bool writes_mask_as_ours(Kernel& product, const MatmulSpec& spec, const Operands& operands,
                         const Context& context) {
  Trial trial(operands, context);
  trial.prepare(product);
  std::vector<float> bias;
  for (std::int64_t j = 0; j < spec.n; ++j) {
    bias.push_back(static_cast<float>(scattered(j) % 3) - 1);  // -1, 0 or 1
  }
  bias.front() = 0;  // of which some libraries say that it is above 0
  trial.write(2, bias);
  trial.run(product);
  const std::int64_t row_bytes = relu_mask_row_bytes(spec.n);
  for (const std::int64_t row : some_rows(spec)) {
    const auto bits = trial.read<std::uint8_t>(operand_count(spec) - 1, row * row_bytes, row_bytes);
    for (std::size_t j = 0; j < bias.size(); ++j) {
      if (((bits[j / 8] >> (j % 8) & 1) != 0) != (bias[j] > 0)) return false;
    }
  }
  return true;
}

/// Of a product of positive numbers.
bool reads_mask_as_ours(Kernel& product, const MatmulSpec& spec, const Operands& operands,
                        const Context& context) {
  Trial trial(operands, context);
  trial.prepare(product);
  const std::int64_t row_bytes = relu_mask_row_bytes(spec.n);
  std::vector<std::uint8_t> mask;
  for (std::int64_t i = 0; i < spec.m * row_bytes; ++i) {
    mask.push_back(static_cast<std::uint8_t>(scattered(i)));
  }
  trial.fill(0, about_three_quarters);
  trial.fill(1, about_three_quarters);
  trial.write(2, mask);
  trial.run(product);
  for (const std::int64_t row : some_rows(spec)) {
    const auto found = trial.read<float>(result_operand(spec), row * spec.n, spec.n);
    for (std::int64_t j = 0; j < spec.n; ++j) {
      const auto byte = static_cast<std::size_t>(row * row_bytes + j / 8);
      const float value = found[static_cast<std::size_t>(j)];
      if ((mask[byte] >> (j % 8) & 1) != 0 ? !(value > 0) : value != 0) return false;
    }
  }
  return true;
}

/// Of a product of zeros.
bool adds_bias(Kernel& product, const MatmulSpec& spec, const Operands& operands,
               const Context& context) {
  Trial trial(operands, context);
  trial.prepare(product);
  std::vector<float> bias;
  for (std::int64_t j = 0; j < spec.n; ++j) bias.push_back(static_cast<float>(scattered(j) % 7));
  trial.write(2, bias);
  trial.run(product);
  return trial.read<float>(result_operand(spec), (spec.m - 1) * spec.n, spec.n) == bias;
}

/// Of a product of zeros with a factor whose elements are all the same.
bool sums_columns(Kernel& product, const MatmulSpec& spec, const Operands& operands,
                  const Context& context) {
  Trial trial(operands, context);
  trial.prepare(product);
  trial.fill(1, about_three_quarters);
  trial.run(product);
  if (trial.read<float>(result_operand(spec), spec.m * spec.n - 1, 1).front() != 0) return false;
  const double expected = 0.747 * static_cast<double>(spec.k);
  for (const float sum : trial.read<float>(operand_count(spec) - 1, 0, spec.n)) {
    if (!(std::abs(static_cast<double>(sum) - expected) <= 0.01 * expected)) return false;
  }
  return true;
}

}  // namespace

std::string refusal(Product& product, const MatmulSpec& spec, std::uint32_t alignment,
                    const Context& context) {
  const Operands operands = operands_of(spec, alignment);
  if (spec == bare(spec)) return refusal_to_run(product, operands, context);
  return refusal([&]() -> std::string {
    if (spec.activation == Activation::relu && !keeps_nan(product, spec, operands, context)) {
      return "its relu of NaN is a number";
    }
    if (writes_mask(spec) && !writes_mask_as_ours(product, spec, operands, context)) {
      return "its relu mask has other bits than the sums above 0";
    }
    if (spec.derivative != Activation::linear &&
        !reads_mask_as_ours(product, spec, operands, context)) {
      return "it reads a relu mask in another order";
    }
    if (spec.column_sums && !sums_columns(product, spec, operands, context)) {
      return "its column sums are of other numbers";
    }
    return spec.bias && !adds_bias(product, spec, operands, context) ? "it adds another bias" : "";
  });
}

}  // namespace meshwork::cuda

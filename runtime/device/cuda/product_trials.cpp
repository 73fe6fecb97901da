#include "runtime/device/cuda/product_trials.h"

#include <cuda_runtime_api.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/device/cuda/check.h"
#include "runtime/device/cuda/libraries.h"

namespace meshwork::cuda {

namespace {

/// Operands of a product, all bits 0 at first.
class Trial {
 public:
  Trial(const MatmulSpec& spec, const Context& context) : context_(&context) {
    constexpr auto element = static_cast<std::int64_t>(sizeof(float));
    const std::int64_t factor = spec.narrow ? 2 : element;
    const std::int64_t mask = spec.m * relu_mask_row_bytes(spec.n);
    add(spec.m * spec.k * factor);
    add(spec.k * spec.n * factor);
    if (spec.bias) add(spec.n * element);
    if (spec.derivative != Activation::linear) add(spec.mask ? mask : spec.m * spec.n * element);
    add(spec.m * spec.n * element);
    if (writes_mask(spec)) add(mask);
    if (spec.column_sums) add(spec.n * element);
  }

  /// Sets every byte of an operand.
  void fill(int operand, int byte) {
    check_cuda(cudaMemsetAsync(operands_[index(operand)], byte,
                               static_cast<std::size_t>(memories_[index(operand)].bytes()),
                               context_->libraries->stream),
               "cudaMemsetAsync");
  }
  template <class T>
  void write(int operand, const std::vector<T>& values) {
    context_->device->copy_in(operands_[index(operand)], values.data(), bytes_of(values));
  }
  template <class T>
  [[nodiscard]] std::vector<T> read(int operand, std::int64_t from, std::int64_t count) {
    std::vector<T> values(static_cast<std::size_t>(count));
    context_->device->copy_out(values.data(), static_cast<T*>(operands_[index(operand)]) + from,
                               bytes_of(values));
    return values;
  }
  void run(Kernel& product) {
    if (product.workspace_bytes() > 0) add(product.workspace_bytes());
    product.run(operands_.data());
  }

 private:
  static std::size_t index(int operand) { return static_cast<std::size_t>(operand); }
  template <class T>
  static std::int64_t bytes_of(const std::vector<T>& values) {
    return static_cast<std::int64_t>(values.size() * sizeof(T));
  }
  void add(std::int64_t bytes) {
    memories_.push_back(context_->device->allocate(bytes));
    operands_.push_back(memories_.back().data());
  }

  const Context* context_;
  std::vector<Memory> memories_;
  std::vector<void*> operands_;
};

/// In bytes of 0x3f a float32 and a bfloat16 are both about 0.75.
constexpr int about_three_quarters = 0x3f;

/// Numbers without a pattern that could be mistaken.
constexpr std::uint32_t scattered(std::int64_t i) {
  return (static_cast<std::uint32_t>(i) * 2654435761U) >> 16;
}

bool keeps_nan(Kernel& product, const MatmulSpec& spec, const Context& context) {
  Trial trial(spec, context);
  trial.fill(0, 0xff);  // all bits set is a NaN
  trial.run(product);
  return std::isnan(trial.read<float>(result_operand(spec), spec.m * spec.n - 1, 1).front());
}

/// The rows that are looked at.
std::array<std::int64_t, 3> some_rows(const MatmulSpec& spec) {
  return {0, spec.m / 2, spec.m - 1};
}

/// Of a product of zeros, whose result is its bias.
bool writes_mask_as_ours(Kernel& product, const MatmulSpec& spec, const Context& context) {
  Trial trial(spec, context);
  std::vector<float> bias;
  for (std::int64_t j = 0; j < spec.n; ++j) {
    bias.push_back(static_cast<float>(scattered(j) % 3) - 1);  // -1, 0 or 1
  }
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
bool reads_mask_as_ours(Kernel& product, const MatmulSpec& spec, const Context& context) {
  Trial trial(spec, context);
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

/// Of a product of zeros with a factor whose elements are all the same.
bool sums_columns(Kernel& product, const MatmulSpec& spec, const Context& context) {
  Trial trial(spec, context);
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

bool stands_trial(Kernel& product, const MatmulSpec& spec, const Context& context) {
  if (spec.activation == Activation::relu && !keeps_nan(product, spec, context)) return false;
  if (writes_mask(spec) && !writes_mask_as_ours(product, spec, context)) return false;
  if (spec.derivative != Activation::linear && !reads_mask_as_ours(product, spec, context)) {
    return false;
  }
  return !spec.column_sums || sums_columns(product, spec, context);
}

}  // namespace meshwork::cuda

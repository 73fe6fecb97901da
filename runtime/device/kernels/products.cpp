#include "runtime/device/kernels/products.h"

#include "collectives/error.h"

namespace meshwork {

std::string MatmulSpec::text() const {
  std::string text = "matmul";
  if (transpose_a || transpose_b) {
    text += fmt::format(" {}{}", transpose_a ? 't' : 'n', transpose_b ? 't' : 'n');
  }
  text += spec::words({{accumulate, "add"}}) + spec::sized("", {m, n, k}) +
          spec::words({{bias, "bias"}}) + spec::activated(activation);
  if (derivative != Activation::linear) text += spec::activated(derivative) + " gradient";
  return text +
         spec::words({{column_sums, "with column sums"},
                      {writes_mask(*this), "to a mask"},
                      {mask && !writes_mask(*this), "from a mask"}}) +
         spec::in_precision(precision) + spec::words({{narrow, "as stored"}});
}

KernelWork MatmulSpec::work() const {
  const bool derives = derivative != Activation::linear;
  const double factors = spec::product({m, k}) + spec::product({k, n});
  const double results = spec::product({m, n}) * (accumulate || (derives && !mask) ? 2 : 1) +
                         (bias || column_sums ? static_cast<double>(n) : 0);
  return {2 * spec::product({m, n, k}),
          (narrow ? spec::bf16 : spec::f32) * factors + spec::f32 * results +
              (mask ? spec::product({m, relu_mask_row_bytes(n)}) : 0),
          precision};
}

void MatmulSpec::check() const {
  const std::string name = text();
  spec::require(m >= 0 && n >= 0 && k >= 0, name, "has a negative length");
  spec::require_fused(activation, name);
  spec::require(!narrow || precision == Precision::bfloat16, name,
                "has narrow operands and is not in bfloat16");
  spec::require_elementwise(derivative, name);
  const bool forward = bias || activation != Activation::linear;
  const bool derives = derivative != Activation::linear;
  spec::require(!accumulate || !forward, name, "accumulates and has a bias or an activation");
  spec::require(
      int{accumulate} + int{forward} + int{derives} + int{column_sums} <= 1, name,
      "takes along what goes together with nothing else: a gradient, column sums, or what it adds "
      "to");
  spec::require(!column_sums || !transpose_b, name, "sums the columns of a transposed factor");
  spec::require(!column_sums || precision == Precision::float32, name,
                "sums the columns of a rounded factor");
  spec::require(!mask || activation == Activation::relu || derivative == Activation::relu, name,
                "has a mask without relu");
}

std::vector<std::int64_t> MatmulSpec::operand_counts() const {
  std::vector<std::int64_t> counts{m * k, k * n};
  const std::int64_t mask_elements = m * relu_mask_row_bytes(n) / 4;
  if (bias) counts.push_back(n);
  if (derivative != Activation::linear) counts.push_back(mask ? mask_elements : m * n);
  counts.push_back(m * n);
  if (column_sums) counts.push_back(n);
  if (writes_mask(*this)) counts.push_back(mask_elements);
  return counts;
}

}  // namespace meshwork

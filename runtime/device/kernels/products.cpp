#include "runtime/device/kernels/products.h"

#include "collectives/error.h"

namespace meshwork {

namespace {

/// Elements from the first of a matrix (rows, columns) to the last, `stride` from row to row, over
/// all repeats.
std::int64_t span(std::int64_t rows, std::int64_t columns, std::int64_t stride,
                  const std::vector<MatmulRepeat>& repeats, std::int64_t MatmulRepeat::*step) {
  std::int64_t last = (rows - 1) * stride + columns;
  bool any = rows > 0 && columns > 0;
  for (const MatmulRepeat& repeat : repeats) {
    last += (repeat.count - 1) * (repeat.*step);
    any = any && repeat.count > 0;
  }
  return any ? last : 0;
}

}  // namespace

std::int64_t MatmulSpec::a_count() const {
  return span(transpose_a ? k : m, transpose_a ? m : k, a_stride(), repeats, &MatmulRepeat::a);
}
std::int64_t MatmulSpec::b_count() const {
  return span(transpose_b ? n : k, transpose_b ? k : n, b_stride(), repeats, &MatmulRepeat::b);
}
std::int64_t MatmulSpec::c_count() const {
  return span(m, n, c_stride(), repeats, &MatmulRepeat::c);
}

std::int64_t MatmulSpec::products() const {
  std::int64_t products = 1;
  for (const MatmulRepeat& repeat : repeats) products *= repeat.count;
  return products;
}

std::string MatmulSpec::details() const {
  if (plain()) return "";
  std::string text = fmt::format(" rows {} {} {}", a_row, b_row, c_row);
  for (const MatmulRepeat& repeat : repeats) {
    text += fmt::format(" {}: {} {} {}", repeat.count, repeat.a, repeat.b, repeat.c);
  }
  return text;
}

std::string MatmulSpec::text() const {
  std::string text = "matmul";
  if (transpose_a || transpose_b) {
    text += fmt::format(" {}{}", transpose_a ? 't' : 'n', transpose_b ? 't' : 'n');
  }
  text += spec::words({{accumulate, "add"}}) + spec::sized("", {m, n, k}) +
          spec::words({{bias, "bias"}}) + spec::activated(activation);
  if (!repeats.empty()) text += fmt::format(" {} times", products());
  if (derivative != Activation::linear) text += spec::activated(derivative) + " gradient";
  return text +
         spec::words({{column_sums, "with column sums"},
                      {writes_mask(*this), "to a mask"},
                      {mask && !writes_mask(*this), "from a mask"}}) +
         spec::in_precision(precision) + spec::words({{narrow, "as stored"}});
}

KernelWork MatmulSpec::work() const {
  const bool derives = derivative != Activation::linear;
  const auto factors = static_cast<double>(a_count()) + static_cast<double>(b_count());
  const double results =
      static_cast<double>(c_count()) * (accumulate || (derives && !mask) ? 2 : 1) +
      (bias || column_sums ? static_cast<double>(n) : 0);
  return {2 * spec::product({m, n, k, products()}),
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
  spec::require(plain() || (!accumulate && !forward && !derives && !column_sums), name,
                "takes something along with matrices that are not packed");
  spec::require(repeats.size() <= most_matmul_repeats, name, "is repeated over too many indices");
  spec::require(!mask || activation == Activation::relu || derivative == Activation::relu, name,
                "has a mask without relu");
}

std::vector<std::int64_t> MatmulSpec::operand_counts() const {
  std::vector<std::int64_t> counts{a_count(), b_count()};
  const std::int64_t mask_elements = m * relu_mask_row_bytes(n) / 4;
  if (bias) counts.push_back(n);
  if (derivative != Activation::linear) counts.push_back(mask ? mask_elements : m * n);
  counts.push_back(c_count());
  if (column_sums) counts.push_back(n);
  if (writes_mask(*this)) counts.push_back(mask_elements);
  return counts;
}

}  // namespace meshwork

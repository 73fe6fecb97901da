#include "runtime/graph/operations/product.h"

#include <utility>

#include "collectives/error.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/products.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operations/box_rows.h"
#include "runtime/graph/operations/dimensions.h"
#include "runtime/mesh/block_copy.h"

namespace meshwork {
namespace {

// The copy back.
CopySpec reversed(CopySpec copy) {
  for (CopyRegion& region : copy.regions) {
    std::swap(region.source_offset, region.destination_offset);
    std::swap(region.source_strides, region.destination_strides);
  }
  return copy;
}

}  // namespace

ProductOperation::ProductOperation(Epilogue epilogue, std::size_t contracted)
    : epilogue_(epilogue), contracted_(contracted) {
  epilogue_.check("a product");
}

std::string ProductOperation::kind() const {
  return epilogue_.behind("product");
}

Shape ProductOperation::output_shape(std::span<const Shape> inputs) const {
  check_input_count(inputs, epilogue_.bias ? 3 : 2);
  const Shape& x = inputs[0];
  if (x.size() < contracted_ + 1) {
    fail("expected an input of at least {} dimensions, batch and features, found shape {}",
         contracted_ == 1 ? "two" : std::to_string(contracted_ + 1), to_string(x));
  }
  const std::int64_t features = element_count(std::span(x).last(contracted_));
  if (inputs[kernel].size() != 2 || inputs[kernel][0] != features) {
    fail("a product of an input of shape {} needs a kernel of shape ({}, outputs), found {}",
         to_string(x), features, to_string(inputs[kernel]));
  }
  Shape output(x.begin(), x.end() - static_cast<std::ptrdiff_t>(contracted_));
  output.push_back(inputs[kernel][1]);
  if (epilogue_.bias) {
    Epilogue::check_bias(output, inputs[bias]);
  }
  return output;
}

Rule ProductOperation::rule(std::span<const Shape> inputs) const {
  const std::size_t count = inputs[0].size();
  const std::string letters =
      contracted_ == 1 ? dimension_letters(count, 'i') : dimension_letters(count);
  Rule rule{.inputs = {letters, "io"}, .output = letters.substr(0, count - contracted_) + 'o'};
  // What comes after the sum needs it complete.
  if (!epilogue_.empty()) {
    rule.whole = contracted_ == 1 ? "i" : letters.substr(count - contracted_) + 'i';
  }
  if (epilogue_.bias) {
    rule.inputs.emplace_back("o");
  }
  return rule;
}

double ProductOperation::flops(std::span<const Shape> inputs, const Shape& output) const {
  const double outputs = static_cast<double>(element_count(output));
  return 2.0 * outputs * static_cast<double>(inputs[kernel][0]) + (epilogue_.bias ? outputs : 0);
}

ProductOperation::Factors ProductOperation::factors(const Lowering& lowering) const {
  const Shape y = lowering.local_output_shape();
  const Range kernel_rows = lowering.block(kernel)[0];
  Factors found{.rows = rows_of(y), .outputs = columns_of(y), .kernel_rows = kernel_rows.length()};
  if (contracted_ == 1) {
    found.features = found.columns = kernel_rows.length();
    return found;
  }
  const Block& block = lowering.block(0);
  const Shape& global = lowering.global_shape(0);
  const auto features = static_cast<std::ptrdiff_t>(contracted_);
  const Block box(block.end() - features, block.end());
  const Shape image(global.end() - features, global.end());
  const Shape held = shape_of(box);
  found.columns = element_count(held);
  const std::vector<std::int64_t> strides = strides_of(image);
  const std::vector<std::int64_t> held_strides = strides_of(held);

  // Feature by feature, in ascending order: where it is in this rank's x and in its kernel.
  std::int64_t next = 0;
  std::int64_t last_row = -1;
  for (const Block& part : boxes_within(box, image, kernel_rows)) {
    const Shape extents = shape_of(part);
    const std::vector<std::int64_t> packed = strides_of(extents);
    Block ends = part;
    for (std::size_t d = 0; d < part.size(); ++d) {
      ends[d].begin = part[d].end - 1;
    }
    const std::int64_t row = offset_of(part, whole(image)) - kernel_rows.begin;
    if (next == 0) {
      found.first_row = row;
    }
    last_row = offset_of(ends, whole(image)) - kernel_rows.begin;
    CopyRegion columns{.extents = {found.rows},
                       .source_offset = offset_of(part, box),
                       .destination_offset = next,
                       .source_strides = {found.columns}};
    CopyRegion rows{.extents = extents,
                    .source_offset = row * found.outputs,
                    .destination_offset = next * found.outputs};
    for (std::size_t d = 0; d < part.size(); ++d) {
      columns.extents.push_back(extents[d]);
      columns.source_strides.push_back(held_strides[d]);
      rows.source_strides.push_back(strides[d] * found.outputs);
      rows.destination_strides.push_back(packed[d] * found.outputs);
    }
    columns.destination_strides.push_back(0);  // of a row: known when all features are
    columns.destination_strides.insert(columns.destination_strides.end(), packed.begin(),
                                       packed.end());
    rows.extents.push_back(found.outputs);
    rows.source_strides.push_back(1);
    rows.destination_strides.push_back(1);
    found.columns_packed.regions.push_back(std::move(columns));
    found.rows_packed.regions.push_back(std::move(rows));
    next += element_count(extents);
  }
  found.features = next;
  for (CopyRegion& region : found.columns_packed.regions) {
    region.destination_strides[0] = next;
  }
  found.all_columns = next == found.columns;
  found.side_by_side = last_row - found.first_row + 1 == next || next == 0;
  return found;
}

// What a rank packs depends on its blocks. Inputs are asked for all the same: bringing one can be a
// collective.

// x (rows, features). Filled in forward.
Operand ProductOperation::packed_input(Lowering& lowering, const Factors& factors) {
  const Operand held = lowering.input(0);
  return factors.all_columns ? held
                             : lowering.scratch("packed input", factors.rows * factors.features);
}

// kernel (features, outputs). Filled in forward.
Operand ProductOperation::packed_kernel(Lowering& lowering, const Factors& factors) {
  const Operand held = lowering.input(kernel);
  if (factors.side_by_side) {
    return held.after(factors.first_row * factors.outputs);
  }
  return lowering.scratch("packed kernel", factors.features * factors.outputs);
}

void ProductOperation::forward(Lowering& lowering) const {
  const Factors factors = this->factors(lowering);
  const Operand x = packed_input(lowering, factors);
  const Operand weights = packed_kernel(lowering, factors);
  if (!factors.all_columns) {
    lowering.emit(factors.columns_packed, {lowering.input(0), x});
  }
  if (!factors.side_by_side) {
    lowering.emit(factors.rows_packed, {lowering.input(kernel), weights});
  }
  MatmulSpec product{
      .m = factors.rows, .n = factors.outputs, .k = factors.features, .bias = epilogue_.bias};
  std::vector<Operand> operands{x, weights};
  if (epilogue_.bias) {
    operands.push_back(lowering.input(bias));
  }
  operands.push_back(lowering.output());
  if (epilogue_.activation == Activation::relu) {
    product.activation = Activation::relu;
    if (const std::optional<Operand> mask = lowering.relu_mask()) {
      product.mask = true;
      operands.push_back(*mask);
    }
  }
  lowering.emit(product, operands);
  if (epilogue_.activation != product.activation) {
    lowering.emit(ActivationSpec{epilogue_.activation, factors.rows * factors.outputs},
                  {lowering.output(), lowering.output()});
  }
  epilogue_.drop(lowering);
}

void ProductOperation::backward(Lowering& lowering) const {
  const bool any = lowering.needs_gradient(0) || lowering.needs_gradient(kernel) ||
                   (epilogue_.bias && lowering.needs_gradient(bias));
  if (!any) {
    return;
  }
  const Factors factors = this->factors(lowering);
  const std::int64_t rows = factors.rows;
  const std::int64_t outputs = factors.outputs;
  const std::int64_t features = factors.features;

  // dz (rows, outputs): the gradient before the activation.
  const Operand dz = epilogue_.gradient_before(lowering, rows * outputs);
  if (lowering.needs_gradient(0)) {
    emit_input_gradient(lowering, factors, dz);
    lowering.input_gradient_is_complete(0);
  }
  const bool bias_wanted = epilogue_.bias && lowering.needs_gradient(bias);
  if (lowering.needs_gradient(kernel)) {
    // dkernel (features, outputs) = transpose(x (rows, features)) * dz (rows, outputs), and the
    // bias's gradient along with it.
    const Operand whole = lowering.input_gradient(kernel);
    const Operand packed = factors.side_by_side
                               ? whole.after(factors.first_row * outputs)
                               : lowering.scratch("packed kernel gradient", features * outputs);
    if (features < factors.kernel_rows) {
      lowering.zero(factors.kernel_rows * outputs, whole);
    }
    std::vector<Operand> operands{packed_input(lowering, factors), dz, packed};
    if (bias_wanted) {
      operands.push_back(lowering.input_gradient(bias));
    }
    lowering.emit(MatmulSpec{.m = features,
                             .n = outputs,
                             .k = rows,
                             .transpose_a = true,
                             .column_sums = bias_wanted},
                  operands);
    if (!factors.side_by_side) {
      lowering.emit(reversed(factors.rows_packed), {packed, whole});
    }
  } else if (bias_wanted) {
    lowering.emit(ColumnSumSpec{rows, outputs}, {dz, lowering.input_gradient(bias)});
  }
}

// dx (rows, features) = dz (rows, outputs) * transpose(kernel (features, outputs)), times the
// derivative of the activation that made x, if that is wanted.
void ProductOperation::emit_input_gradient(Lowering& lowering, const Factors& factors,
                                           const Operand& dz) const {
  const Operand dx = lowering.input_gradient(0);
  const std::optional<Derivative> derivative = lowering.derivative(0);
  MatmulSpec product{
      .m = factors.rows, .n = factors.features, .k = factors.outputs, .transpose_b = true};
  std::vector<Operand> operands{dz, packed_kernel(lowering, factors)};
  if (factors.all_columns) {
    if (derivative) {
      // The rows of a mask are those of x's last dimension.
      product.mask = derivative->mask.has_value() && contracted_ == 1;
      product.derivative = derivative->activation;
      operands.push_back(product.mask ? *derivative->mask : derivative->value);
    }
    operands.push_back(dx);
    lowering.emit(product, operands);
    return;
  }
  const Operand packed = lowering.scratch("packed input gradient", factors.rows * factors.features);
  operands.push_back(packed);
  lowering.emit(product, operands);
  lowering.zero(factors.rows * factors.columns, dx);
  lowering.emit(reversed(factors.columns_packed), {packed, dx});
  if (derivative) {
    lowering.emit(ActivationGradientSpec{derivative->activation, factors.rows * factors.columns},
                  {derivative->value, dx, dx});
  }
}

bool ProductOperation::takes_derivative(int input, Activation activation) const {
  return input == 0 && activation != Activation::softmax;
}

bool ProductOperation::multiplies(int input) const {
  return input == 0 || input == kernel;
}

bool ProductOperation::backward_reads(int input) const {
  return input != bias;
}

std::unique_ptr<Operation> ProductOperation::fused_with(const Operation& next, int position) const {
  const std::optional<Epilogue> joined = epilogue_.then(next, position);
  return joined ? std::make_unique<ProductOperation>(*joined, contracted_) : nullptr;
}

std::unique_ptr<Operation> ProductOperation::before_merging(std::size_t dimensions) const {
  return contracted_ == 1 ? std::make_unique<ProductOperation>(epilogue_, dimensions) : nullptr;
}

}  // namespace meshwork

#include "runtime/graph/operations/product.h"

#include <utility>

#include "collectives/error.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operations/activation.h"
#include "runtime/graph/operations/bias.h"
#include "runtime/graph/operations/box_rows.h"
#include "runtime/graph/operations/dimensions.h"
#include "runtime/graph/operations/identity.h"

namespace meshwork {
namespace {

constexpr int kernel = 1;
constexpr int bias_place = 2;

// The copy back.
CopySpec reversed(CopySpec copy) {
  for (CopyRegion& region : copy.regions) {
    std::swap(region.source_offset, region.destination_offset);
    std::swap(region.source_strides, region.destination_strides);
  }
  return copy;
}

}  // namespace

ProductOperation::ProductOperation(bool bias, Activation activation, std::size_t contracted)
    : bias_(bias), activation_(activation), contracted_(contracted) {
  if (!differentiable_from_output(activation)) {
    internal_error("a product cannot be joined with this activation");
  }
}

std::string ProductOperation::kind() const {
  const std::string_view stem = bias_ ? "product+bias" : "product";
  return activation_ == Activation::linear ? std::string(stem)
                                           : fmt::format("{}+{}", stem, name_of(activation_));
}

Shape ProductOperation::output_shape(std::span<const Shape> inputs) const {
  check_input_count(inputs, bias_ ? 3 : 2);
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
  if (bias_ && inputs[bias_place] != Shape{output.back()}) {
    fail("expected a bias of shape {}, found {}", to_string(Shape{output.back()}),
         to_string(inputs[bias_place]));
  }
  return output;
}

Rule ProductOperation::rule(std::span<const Shape> inputs) const {
  const std::size_t count = inputs[0].size();
  const std::string letters =
      contracted_ == 1 ? dimension_letters(count, 'i') : dimension_letters(count);
  Rule rule{.inputs = {letters, "io"}, .output = letters.substr(0, count - contracted_) + 'o'};
  // What comes after the sum needs it complete.
  if (bias_ || activation_ != Activation::linear) {
    rule.whole = contracted_ == 1 ? "i" : letters.substr(count - contracted_) + 'i';
  }
  if (bias_) {
    rule.inputs.emplace_back("o");
  }
  return rule;
}

double ProductOperation::flops(std::span<const Shape> inputs, const Shape& output) const {
  const double outputs = static_cast<double>(element_count(output));
  return 2.0 * outputs * static_cast<double>(inputs[kernel][0]) + (bias_ ? outputs : 0);
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
    Block within = part;
    Block ends = part;
    for (std::size_t d = 0; d < part.size(); ++d) {
      within[d].begin -= box[d].begin;
      ends[d].begin = part[d].end - 1;
    }
    const std::int64_t row = first_index(part, image) - kernel_rows.begin;
    if (next == 0) {
      found.first_row = row;
    }
    last_row = first_index(ends, image) - kernel_rows.begin;
    CopyRegion columns{.extents = {found.rows},
                       .source_offset = first_index(within, held),
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

// x (rows, features). Filled in forward.
Operand ProductOperation::packed_input(Lowering& lowering, const Factors& factors) {
  return factors.all_columns
             ? lowering.input(0)
             : lowering.scratch("packed input", factors.rows * factors.features * 4);
}

// kernel (features, outputs). Filled in forward.
Operand ProductOperation::packed_kernel(Lowering& lowering, const Factors& factors) {
  if (factors.side_by_side) {
    Operand first = lowering.input(kernel);
    first.offset += factors.first_row * factors.outputs * 4;
    return first;
  }
  return lowering.scratch("packed kernel", factors.features * factors.outputs * 4);
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
  MatmulSpec product{.m = factors.rows, .n = factors.outputs, .k = factors.features, .bias = bias_};
  if (activation_ == Activation::relu) {
    product.activation = Activation::relu;
  }
  std::vector<Operand> operands{x, weights};
  if (bias_) {
    operands.push_back(lowering.input(bias_place));
  }
  operands.push_back(lowering.output());
  lowering.emit(product, operands);
  if (activation_ != product.activation) {
    lowering.emit(ActivationSpec{activation_, factors.rows * factors.outputs},
                  {lowering.output(), lowering.output()});
  }
}

void ProductOperation::backward(Lowering& lowering) const {
  const bool any = lowering.needs_gradient(0) || lowering.needs_gradient(kernel) ||
                   (bias_ && lowering.needs_gradient(bias_place));
  if (!any) {
    return;
  }
  const Factors factors = this->factors(lowering);
  const std::int64_t rows = factors.rows;
  const std::int64_t outputs = factors.outputs;
  const std::int64_t features = factors.features;

  // dz (rows, outputs): the gradient before the activation.
  Operand dz = lowering.output_gradient();
  if (activation_ != Activation::linear) {
    dz = lowering.scratch("gradient before the activation", rows * outputs * 4);
    lowering.emit(ActivationGradientSpec{activation_, rows * outputs},
                  {lowering.output(), lowering.output_gradient(), dz});
  }
  if (lowering.needs_gradient(0)) {
    // dx (rows, features) = dz (rows, outputs) * transpose(kernel (features, outputs))
    const Operand dx = lowering.input_gradient(0);
    const Operand packed =
        factors.all_columns ? dx : lowering.scratch("packed input gradient", rows * features * 4);
    lowering.emit(MatmulSpec{.m = rows, .n = features, .k = outputs, .transpose_b = true},
                  {dz, packed_kernel(lowering, factors), packed});
    if (!factors.all_columns) {
      lowering.emit(ZeroSpec{rows * factors.columns * 4}, {dx});
      lowering.emit(reversed(factors.columns_packed), {packed, dx});
    }
  }
  if (lowering.needs_gradient(kernel)) {
    // dkernel (features, outputs) = transpose(x (rows, features)) * dz (rows, outputs)
    const Operand whole = lowering.input_gradient(kernel);
    Operand packed = whole;
    if (factors.side_by_side) {
      packed.offset += factors.first_row * outputs * 4;
    } else {
      packed = lowering.scratch("packed kernel gradient", features * outputs * 4);
    }
    if (features < factors.kernel_rows) {
      lowering.emit(ZeroSpec{factors.kernel_rows * outputs * 4}, {whole});
    }
    lowering.emit(MatmulSpec{.m = features, .n = outputs, .k = rows, .transpose_a = true},
                  {packed_input(lowering, factors), dz, packed});
    if (!factors.side_by_side) {
      lowering.emit(reversed(factors.rows_packed), {packed, whole});
    }
  }
  if (bias_ && lowering.needs_gradient(bias_place)) {
    lowering.emit(ColumnSumSpec{rows, outputs}, {dz, lowering.input_gradient(bias_place)});
  }
}

bool ProductOperation::backward_reads(int input) const {
  return input != bias_place;
}

std::unique_ptr<Operation> ProductOperation::fused_with(const Operation& next, int position) const {
  if (dynamic_cast<const IdentityOperation*>(&next)) {
    return std::make_unique<ProductOperation>(bias_, activation_, contracted_);
  }
  if (position != 0 || activation_ != Activation::linear) {
    return nullptr;
  }
  if (const auto* added = dynamic_cast<const BiasOperation*>(&next); added && !bias_) {
    return std::make_unique<ProductOperation>(true, added->activation(), contracted_);
  }
  if (const auto* applied = dynamic_cast<const ActivationOperation*>(&next);
      applied && differentiable_from_output(applied->activation())) {
    return std::make_unique<ProductOperation>(bias_, applied->activation(), contracted_);
  }
  return nullptr;
}

}  // namespace meshwork

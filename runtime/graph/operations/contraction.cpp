#include "runtime/graph/operations/contraction.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/products.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operations/box_rows.h"
#include "runtime/graph/operations/dimensions.h"
#include "runtime/graph/operations/matrix_form.h"
#include "runtime/mesh/block_copy.h"

namespace meshwork {
namespace {

constexpr int bias = 2;

// A letter of dimensions that is in none of these.
char free_letter(const std::string& taken, const std::string& candidates) {
  const std::size_t found = candidates.find_first_not_of(taken);
  if (found == std::string::npos) {
    fail("a contraction of more letters than there are");
  }
  return candidates[found];
}

// The copy back.
CopySpec reversed(CopySpec copy) {
  for (CopyRegion& region : copy.regions) {
    std::swap(region.source_offset, region.destination_offset);
    std::swap(region.source_strides, region.destination_strides);
  }
  return copy;
}

// An array that is multiplied, or comes out of it.
struct Array {
  const std::string& letters;
  Operand at;
};

// Multiplies a and b into y. What the product may take along is set by `ride`, if the equation is
// one product of matrices whose columns are y's last dimension: it is given the product and its
// operands, with c as the last. Whether it was.
template <class Ride>
bool multiply(Lowering& lowering, const std::string& name, const Array& a, const Array& b,
              const Array& y, const LetterLengths& lengths, const Ride& ride) {
  const MatrixForm form = matrix_form(a.letters, b.letters, y.letters, lengths);
  const auto placed = [&](const Array& array, const std::optional<CopySpec>& copy,
                          const std::string& what) {
    return copy ? lowering.scratch(name + what, element_count(array.letters, lengths)) : array.at;
  };
  const Operand first = placed(a, form.a, " first factor");
  const Operand second = placed(b, form.b, " second factor");
  const Operand result = placed(y, form.y, " result");
  if (form.a) {
    lowering.emit(*form.a, {a.at, first});
  }
  if (form.b) {
    lowering.emit(*form.b, {b.at, second});
  }
  MatmulSpec product = form.product;
  std::vector<Operand> operands{form.exchanged ? second : first, form.exchanged ? first : second,
                                result};
  const bool rides = product.plain() && !form.exchanged && !form.y &&
                     (y.letters.empty() || product.n == lengths.at(y.letters.back()));
  if (rides) {
    ride(product, operands);
  }
  lowering.emit(product, operands);
  if (form.y) {
    lowering.emit(*form.y, {result, y.at});
  }
  return rides;
}

}  // namespace

std::string dense_equation(std::size_t dimensions) {
  const std::string letters = dimension_letters(dimensions, 'i');
  return letters + ",io->" + letters.substr(0, dimensions - 1) + "o";
}

ContractionOperation::ContractionOperation(std::string a, std::string b, std::string y,
                                           std::string merged, const Epilogue& epilogue)
    : a_(std::move(a)),
      b_(std::move(b)),
      y_(std::move(y)),
      merged_(std::move(merged)),
      epilogue_(epilogue) {
  epilogue_.check("a contraction");
  for (const std::string* operand : {&a_, &b_, &y_}) {
    for (const char letter : *operand) {
      const int operands = int{has(a_, letter)} + int{has(b_, letter)} + int{has(y_, letter)};
      const bool is_merged = has(merged_, letter) || (!merged_.empty() && letter == b_.front());
      if (std::count(operand->begin(), operand->end(), letter) > 1 ||
          (operands < 2 && !is_merged)) {
        fail("the contraction {} has the letter '{}' {}", equation(), letter,
             operands < 2 ? "in one operand alone" : "twice in one operand");
      }
    }
  }
  if (y_.empty()) {
    fail("the contraction {} leaves no dimension", equation());
  }
  if (a_.size() < merged_.size() || a_.substr(a_.size() - merged_.size()) != merged_) {
    fail("the contraction {} merges letters that its first operand does not end with", equation());
  }
}

ContractionOperation::ContractionOperation(std::string_view equation, const Epilogue& epilogue)
    : ContractionOperation([&] {
        const std::size_t comma = equation.find(',');
        const std::size_t arrow = equation.find("->");
        if (comma == std::string_view::npos || arrow == std::string_view::npos || arrow < comma) {
          fail("expected an equation of two operands, like bti,io->bto, found {}", equation);
        }
        std::string b(equation.substr(comma + 1, arrow - comma - 1));
        std::string merged;
        if (const std::size_t close = b.find(')'); b.starts_with('(') && close != b.npos) {
          merged = b.substr(1, close - 1);
          b.replace(0, close + 1, 1, free_letter(std::string(equation), "ijlmnpqrs"));
        }
        return ContractionOperation(std::string(equation.substr(0, comma)), std::move(b),
                                    std::string(equation.substr(arrow + 2)), std::move(merged),
                                    epilogue);
      }()) {}

std::string ContractionOperation::equation() const {
  return a_ + "," + (merged_.empty() ? b_ : "(" + merged_ + ")" + b_.substr(1)) + "->" + y_;
}

std::unique_ptr<ContractionOperation> ContractionOperation::over_unmerged(
    std::size_t dimensions) const {
  if (!merged_.empty() || a_.empty() || b_.empty() || a_.back() != b_.front() ||
      has(y_, a_.back())) {
    return nullptr;
  }
  std::string merged;
  while (merged.size() < dimensions) {
    merged += free_letter(a_ + b_ + y_ + merged, dimension_letters(dimension_letters_count));
  }
  return std::unique_ptr<ContractionOperation>(
      new ContractionOperation(a_.substr(0, a_.size() - 1) + merged, b_, y_, merged, epilogue_));
}

std::string ContractionOperation::summed() const {
  std::string letters;
  std::copy_if(a_.begin(), a_.end(), std::back_inserter(letters),
               [&](char letter) { return !has(y_, letter); });
  return merged_.empty() ? letters : letters + b_.front();
}

Shape ContractionOperation::output_shape(std::span<const Shape> inputs) const {
  check_input_count(inputs, epilogue_.bias ? 3 : 2);
  LetterLengths lengths;
  const auto take = [&](const std::string& letters, std::size_t input) {
    const Shape& shape = inputs[input];
    bool fits = shape.size() == letters.size();
    for (std::size_t d = 0; fits && d < letters.size(); ++d) {
      fits = lengths.try_emplace(letters[d], shape[d]).first->second == shape[d];
    }
    if (!fits) {
      fail("a product {} of an input of shape {} cannot have one of shape {}", equation(),
           to_string(inputs[0]), to_string(inputs[1]));
    }
  };
  take(a_, 0);
  if (!merged_.empty()) {
    lengths[b_.front()] = element_count(std::span(inputs[0]).last(merged_.size()));
  }
  take(b_, 1);
  Shape output;
  for (const char letter : y_) {
    output.push_back(lengths.at(letter));
  }
  if (epilogue_.bias) {
    Epilogue::check_bias(output, inputs[bias]);
  }
  return output;
}

Rule ContractionOperation::rule(std::span<const Shape>) const {
  Rule rule{.inputs = {a_, b_}, .output = y_};
  // What comes after the sum needs it complete.
  if (!epilogue_.empty()) {
    rule.whole = summed();
  }
  if (epilogue_.bias) {
    rule.inputs.emplace_back(1, y_.back());
  }
  return rule;
}

double ContractionOperation::flops(std::span<const Shape> inputs, const Shape& output) const {
  const auto outputs = static_cast<double>(element_count(output));
  double terms = 1;
  for (std::size_t d = 0; d < a_.size(); ++d) {
    terms *= has(y_, a_[d]) ? 1.0 : static_cast<double>(inputs[0][d]);
  }
  return 2.0 * outputs * terms + (epilogue_.bias ? outputs : 0);
}

// What this rank multiplies: its blocks or, of merged letters, the elements that are in both.
struct ContractionOperation::Part {
  std::string a;                               // letters, the merged ones being one
  LetterLengths lengths;                       // of the letters of a, b and y
  std::int64_t a_count = 0, b_count = 0;       // elements of this rank's blocks
  std::int64_t first = 0;                      // of its block of b, where what it multiplies lies
  std::optional<CopySpec> a_packed, b_packed;  // else: out of the blocks

  // What a rank packs depends on its blocks. Inputs are asked for all the same: bringing one can
  // be a collective. Filled in forward.
  Operand factor_a(Lowering& lowering) const {
    const Operand held = lowering.input(0);
    return a_packed ? lowering.scratch("packed input", count(a)) : held;
  }
  Operand factor_b(Lowering& lowering, const std::string& letters) const {
    const Operand held = lowering.input(1);
    return b_packed ? lowering.scratch("packed kernel", count(letters)) : held.after(first);
  }
  std::int64_t count(const std::string& letters) const { return element_count(letters, lengths); }
};

ContractionOperation::Part ContractionOperation::part(const Lowering& lowering) const {
  Part found{.a = a_};
  const auto take = [&](const std::string& letters, const Shape& shape) {
    for (std::size_t d = 0; d < letters.size(); ++d) {
      found.lengths[letters[d]] = shape[d];
    }
    return element_count(shape);
  };
  found.a_count = take(a_, lowering.local_shape(0));
  found.b_count = take(b_, lowering.local_shape(1));
  if (merged_.empty()) {
    return found;
  }
  found.a.replace(a_.size() - merged_.size(), merged_.size(), 1, b_.front());
  const auto merged = static_cast<std::ptrdiff_t>(merged_.size());
  const Block& block = lowering.block(0);
  const Shape& global = lowering.global_shape(0);
  const Block box(block.end() - merged, block.end());
  const Shape image(global.end() - merged, global.end());
  const Shape held = shape_of(box);
  const std::int64_t columns = element_count(held);
  const std::int64_t rows = element_count(shape_of(Block(block.begin(), block.end() - merged)));
  const std::int64_t outputs = found.count(b_.substr(1));
  const Range kernel_rows = lowering.block(1)[0];
  const std::vector<std::int64_t> strides = strides_of(image);
  const std::vector<std::int64_t> held_strides = strides_of(held);

  // Feature by feature, in ascending order: where it is in this rank's a and in its b.
  CopySpec a_packed;
  CopySpec b_packed;
  std::int64_t next = 0;
  std::int64_t first_row = 0;
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
      first_row = row;
    }
    last_row = offset_of(ends, whole(image)) - kernel_rows.begin;
    CopyRegion from_a{.extents = {rows},
                      .source_offset = offset_of(part, box),
                      .destination_offset = next,
                      .source_strides = {columns}};
    CopyRegion from_b{
        .extents = extents, .source_offset = row * outputs, .destination_offset = next * outputs};
    for (std::size_t d = 0; d < part.size(); ++d) {
      from_a.extents.push_back(extents[d]);
      from_a.source_strides.push_back(held_strides[d]);
      from_b.source_strides.push_back(strides[d] * outputs);
      from_b.destination_strides.push_back(packed[d] * outputs);
    }
    from_a.destination_strides.push_back(0);  // of a row: known when all features are
    from_a.destination_strides.insert(from_a.destination_strides.end(), packed.begin(),
                                      packed.end());
    from_b.extents.push_back(outputs);
    from_b.source_strides.push_back(1);
    from_b.destination_strides.push_back(1);
    a_packed.regions.push_back(std::move(from_a));
    b_packed.regions.push_back(std::move(from_b));
    next += element_count(extents);
  }
  found.lengths[b_.front()] = next;
  for (CopyRegion& region : a_packed.regions) {
    region.destination_strides[0] = next;
  }
  if (next < columns) {
    found.a_packed = std::move(a_packed);
  }
  if (next > 0 && last_row - first_row + 1 > next) {
    found.b_packed = std::move(b_packed);
  } else {
    found.first = first_row * outputs;
  }
  return found;
}

void ContractionOperation::forward(Lowering& lowering) const {
  const Part part = this->part(lowering);
  const Operand a = part.factor_a(lowering);
  const Operand b = part.factor_b(lowering, b_);
  if (part.a_packed) {
    lowering.emit(*part.a_packed, {lowering.input(0), a});
  }
  if (part.b_packed) {
    lowering.emit(*part.b_packed, {lowering.input(1), b});
  }
  const std::optional<Operand> added =
      epilogue_.bias ? std::optional(lowering.input(bias)) : std::nullopt;
  const Operand y = lowering.output();
  const Activation activation = epilogue_.activation;
  const std::optional<Operand> mask =
      activation == Activation::relu ? lowering.relu_mask() : std::nullopt;
  Activation done = Activation::linear;
  const bool rides = multiply(lowering, "forward", {part.a, a}, {b_, b}, {y_, y}, part.lengths,
                              [&](MatmulSpec& product, std::vector<Operand>& operands) {
                                if (added) {
                                  product.bias = true;
                                  operands.insert(operands.end() - 1, *added);
                                }
                                if (activation == Activation::relu) {
                                  product.activation = done = activation;
                                  product.mask = mask.has_value();
                                  if (mask) {
                                    operands.push_back(*mask);
                                  }
                                }
                              });
  const Shape shape = lowering.local_output_shape();
  if (!rides && added) {
    lowering.emit(BiasAddSpec{rows_of(shape), columns_of(shape), activation}, {y, *added, y});
  } else if (activation != done) {
    lowering.emit(ActivationSpec{activation, element_count(shape)}, {y, y});
  }
  epilogue_.drop(lowering);
}

void ContractionOperation::backward(Lowering& lowering) const {
  const bool bias_wanted = epilogue_.bias && lowering.needs_gradient(bias);
  if (!lowering.needs_gradient(0) && !lowering.needs_gradient(1) && !bias_wanted) {
    return;
  }
  const Part part = this->part(lowering);
  const Shape shape = lowering.local_output_shape();
  const Operand dz = epilogue_.gradient_before(lowering, element_count(shape));
  if (lowering.needs_gradient(0)) {
    emit_a_gradient(lowering, part, dz);
    lowering.input_gradient_is_complete(0);
  }
  if (lowering.needs_gradient(1)) {
    emit_b_gradient(lowering, part, dz);
  } else if (bias_wanted) {
    lowering.emit(ColumnSumSpec{rows_of(shape), columns_of(shape)},
                  {dz, lowering.input_gradient(bias)});
  }
}

// da, times the derivative of the activation that made a, if that is wanted.
void ContractionOperation::emit_a_gradient(Lowering& lowering, const Part& part,
                                           const Operand& dz) const {
  const Operand da = lowering.input_gradient(0);
  const std::optional<Derivative> derivative = lowering.derivative(0);
  const Operand b = part.factor_b(lowering, b_);
  const Operand packed =
      part.a_packed ? lowering.scratch("packed input gradient", part.count(part.a)) : da;
  const bool rides = multiply(
      lowering, "input gradient", {y_, dz}, {b_, b}, {part.a, packed}, part.lengths,
      [&](MatmulSpec& product, std::vector<Operand>& operands) {
        if (derivative && !part.a_packed) {
          // The rows of a mask are those of a's last dimension.
          product.mask = derivative->mask.has_value() && merged_.empty();
          product.derivative = derivative->activation;
          operands.insert(operands.end() - 1, product.mask ? *derivative->mask : derivative->value);
        }
      });
  if (part.a_packed) {
    lowering.zero(part.a_count, da);
    lowering.emit(reversed(*part.a_packed), {packed, da});
  }
  if (derivative && (part.a_packed || !rides)) {
    lowering.emit(ActivationGradientSpec{derivative->activation, part.a_count},
                  {derivative->value, da, da});
  }
}

// db, and the bias's gradient along with it.
void ContractionOperation::emit_b_gradient(Lowering& lowering, const Part& part,
                                           const Operand& dz) const {
  const Operand whole = lowering.input_gradient(1);
  const Operand packed = part.b_packed ? lowering.scratch("packed kernel gradient", part.count(b_))
                                       : whole.after(part.first);
  if (part.count(b_) < part.b_count) {
    lowering.zero(part.b_count, whole);
  }
  const Operand a = part.factor_a(lowering);
  const std::optional<Operand> sums = epilogue_.bias && lowering.needs_gradient(bias)
                                          ? std::optional(lowering.input_gradient(bias))
                                          : std::nullopt;
  const Shape shape = lowering.local_output_shape();
  bool summed = false;
  (void)multiply(lowering, "kernel gradient", {part.a, a}, {y_, dz}, {b_, packed}, part.lengths,
                 [&](MatmulSpec& product, std::vector<Operand>& operands) {
                   if (sums && !product.transpose_b && product.n == columns_of(shape) &&
                       product.k == rows_of(shape)) {
                     product.column_sums = summed = true;
                     operands.push_back(*sums);
                   }
                 });
  if (part.b_packed) {
    lowering.emit(reversed(*part.b_packed), {packed, whole});
  }
  if (sums && !summed) {
    lowering.emit(ColumnSumSpec{rows_of(shape), columns_of(shape)}, {dz, *sums});
  }
}

Fusible ContractionOperation::fusible() const {
  return {.epilogue = epilogue_,
          .with =
              [this](const Epilogue& epilogue) {
                return std::unique_ptr<Operation>(
                    new ContractionOperation(a_, b_, y_, merged_, epilogue));
              },
          .ends_in = epilogue_.ends_in(),
          .takes_derivative = true,
          .multiplies = true};
}

}  // namespace meshwork

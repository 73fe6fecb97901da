#include "layers/einsum_dense.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "collectives/error.h"
#include "layers/layer_of.h"
#include "layers/projection.h"
#include "runtime/graph/operations/activation.h"

namespace meshwork {

template <class Visitor>
void describe(EinsumDenseOptions& options, Visitor& option) {
  option.about("the einsum of the input and a kernel, plus a bias");
  describe_name(options, option);
  option.required("equation", options.equation,
                  "letters of input, kernel and output: \"abc,cd->abd\", \"...x,xy->...y\"");
  option.required("output_shape", options.output_shape, positive,
                  "shape of the output's sample; ~: the input's length");
  option("bias_axes", options.bias_axes, "last letters of the output, which get a bias; ~: none");
  option("activation", options.activation, "function of each output; ~: none");
  describe_variable(option, "kernel", "the kernel", options.kernel_initializer,
                    options.kernel_regularizer, options.kernel_constraint);
  describe_variable(option, "bias", "the bias", options.bias_initializer, options.bias_regularizer,
                    options.bias_constraint);
  option("trainable", options.trainable, "train kernel and bias; false: keep them fixed");
}

namespace {

constexpr std::string_view rest = "...";

struct Equation {
  std::string input, kernel, output;
  [[nodiscard]] std::string text() const { return input + ',' + kernel + "->" + output; }
};

Equation parts_of(const std::string& equation) {
  const std::size_t comma = equation.find(','), arrow = equation.find("->");
  if (comma == std::string::npos || arrow == std::string::npos || comma > arrow || comma == 0 ||
      arrow == comma + 1 || arrow + 2 == equation.size() ||
      equation.find(',', comma + 1) != std::string::npos) {
    fail("expected an equation of input and kernel such as \"abc,cd->abd\", found \"{}\"",
         equation);
  }
  return {equation.substr(0, comma), equation.substr(comma + 1, arrow - comma - 1),
          equation.substr(arrow + 2)};
}

// The equation with letters in place of "...", for an input of so many dimensions.
Equation written_out(Equation of, std::size_t dimensions) {
  const bool open = of.input.find(rest) != std::string::npos;
  const std::size_t named = of.input.size() - (open ? rest.size() : 0);
  if (open != (of.output.find(rest) != std::string::npos)) {
    fail("expected \"...\" in input and output alike, found \"{}\"", of.text());
  }
  if (dimensions < named || (!open && dimensions != named)) {
    fail("the equation \"{}\" takes an input of {}{} dimensions, found {}", of.text(),
         open ? "at least " : "", named, dimensions);
  }
  if (of.input.front() != of.output.front()) {
    fail("expected the batch, the input's first dimension, as the output's first one, found \"{}\"",
         of.text());
  }
  if (!open) return of;
  std::string letters;
  const std::string taken = of.text();
  for (char letter = 'A'; letters.size() < dimensions - named; ++letter) {
    if (taken.find(letter) == std::string::npos) letters += letter;
  }
  for (std::string* side : {&of.input, &of.output})
    side->replace(side->find(rest), rest.size(), letters);
  return of;
}

TensorId einsum(const EinsumDenseOptions& of, LayerBuilder& builder, TensorId x) {
  const Shape& shape = builder.shape(x);
  const Equation equation = written_out(parts_of(of.equation), shape.size());
  // Lengths of the output that are not given are the input's.
  const std::size_t given = of.output_shape.size();
  if (equation.output.size() < given + 1) {
    fail("output_shape: expected at most {} lengths for \"{}\", found {}",
         equation.output.size() - 1, of.equation, given);
  }
  const auto length_of = [&](char letter) -> std::int64_t {
    if (const std::size_t at = equation.input.find(letter); at != std::string::npos) {
      return shape[at];
    }
    const std::size_t at = equation.output.find(letter);
    if (at == std::string::npos || at + given < equation.output.size()) {
      fail("\"{}\": the kernel's '{}' is in neither input nor output", of.equation, letter);
    }
    return of.output_shape[at + given - equation.output.size()].value_or(0);
  };
  Shape kernel;
  Fans fans{1, 1};
  for (const char letter : equation.kernel) {
    kernel.push_back(length_of(letter));
    if (kernel.back() < 1) {
      fail("\"{}\": the kernel needs a length for '{}', which `output_shape` does not give",
           of.equation, letter);
    }
    const bool comes_out = equation.output.find(letter) != std::string::npos;
    (comes_out ? fans.out : fans.in) *= static_cast<double>(kernel.back());
  }
  const std::string bias_axes = of.bias_axes.value_or("");
  const std::size_t biases = bias_axes.size();
  if (biases > 0 && (biases >= equation.output.size() || !equation.output.ends_with(bias_axes))) {
    fail(
        "bias_axes: expected the last letters of the output \"{}\", found \"{}\"; Permute moves "
        "dimensions",
        equation.output, bias_axes);
  }
  TensorId y = project(of, builder, "", equation.text(), x, kernel, fans, biases);
  const Shape& made = builder.shape(y);
  for (std::size_t i = 0; i < given; ++i) {
    const std::int64_t found = made[made.size() - given + i],
                       length = of.output_shape[i].value_or(found);
    if (length != found) {
      fail("output_shape: dimension {} is {} by the equation \"{}\", found {}", i, found,
           of.equation, length);
    }
  }
  if (of.activation != Activation::linear) y = builder.apply(make_activation(of.activation), {y});
  return y;
}

}  // namespace

SharedLayer EinsumDense(EinsumDenseOptions options) {
  static_cast<void>(parts_of(options.equation));
  return layer_of("EinsumDense", std::move(options), einsum);
}

void add_einsum_dense(Catalog& catalog) {
  catalog.add<SharedLayer, EinsumDenseOptions>("EinsumDense", {}, EinsumDense);
}

}  // namespace meshwork

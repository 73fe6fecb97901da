#include "runtime/graph/operations/global_pooling.h"

#include "collectives/error.h"
#include "runtime/device/kernels/middle.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {
namespace {

// (batch, channels) of (batch, spatial dimensions..., channels).
Shape without_places(const Shape& shape) {
  return {shape.front(), shape.back()};
}

std::int64_t places_of(const Shape& shape) {
  return element_count(std::span(shape).subspan(1, shape.size() - 2));
}

Shape pooled_shape(std::span<const Shape> inputs) {
  check_input_count(inputs, 1);
  if (inputs[0].size() < 3) {
    fail("expected an input with dimensions between batch and channels, found shape {}",
         to_string(inputs[0]));
  }
  return without_places(inputs[0]);
}

std::string letters_of_places(const Shape& shape) {
  return dimension_letters(shape.size(), 'o').substr(1, shape.size() - 2);
}

Rule pooled_rule(const Shape& shape) {
  const std::string letters = dimension_letters(shape.size(), 'o');
  return {.inputs = {letters}, .output = {letters.front(), letters.back()}};
}

}  // namespace

Shape GlobalAverageOperation::output_shape(std::span<const Shape> inputs) const {
  return pooled_shape(inputs);
}

Rule GlobalAverageOperation::rule(std::span<const Shape> inputs) const {
  return pooled_rule(inputs[0]);
}

double GlobalAverageOperation::flops(std::span<const Shape> inputs, const Shape&) const {
  return static_cast<double>(element_count(inputs[0]));
}

void GlobalAverageOperation::forward(Lowering& lowering) const {
  const Shape x = lowering.local_shape(0);
  const float share = 1.0f / static_cast<float>(places_of(lowering.global_shape(0)));
  lowering.emit(MiddleSumSpec{x.front(), places_of(x), x.back(), share},
                {lowering.input(0), lowering.output()});
}

void GlobalAverageOperation::backward(Lowering& lowering) const {
  if (!lowering.needs_gradient(0)) {
    return;
  }
  const Shape x = lowering.local_shape(0);
  const float share = 1.0f / static_cast<float>(places_of(lowering.global_shape(0)));
  lowering.emit(MiddleBroadcastSpec{x.front(), places_of(x), x.back(), share},
                {lowering.output_gradient(), lowering.input_gradient(0)});
}

Shape GlobalMaximumOperation::output_shape(std::span<const Shape> inputs) const {
  return pooled_shape(inputs);
}

Rule GlobalMaximumOperation::rule(std::span<const Shape> inputs) const {
  Rule rule = pooled_rule(inputs[0]);
  rule.own = letters_of_places(inputs[0]);
  return rule;
}

std::vector<OwnReduction> GlobalMaximumOperation::own_reductions(const Rule& rule) const {
  return {{.over = rule.own, .of = rule.output},
          {.over = rule.own, .of = rule.output, .backward = true}};
}

double GlobalMaximumOperation::flops(std::span<const Shape> inputs, const Shape&) const {
  return static_cast<double>(element_count(inputs[0]));
}

void GlobalMaximumOperation::forward(Lowering& lowering) const {
  const Shape x = lowering.local_shape(0);
  const Operand y = lowering.output();
  lowering.emit(MiddleMaximumSpec{x.front(), places_of(x), x.back()}, {lowering.input(0), y});
  lowering.all_reduce(letters_of_places(x), ElementType::float32, Reduction::maximum, y,
                      x.front() * x.back(), element_count(lowering.global_output_shape()),
                      "maxima of channels");
}

void GlobalMaximumOperation::backward(Lowering& lowering) const {
  if (!lowering.needs_gradient(0)) {
    return;
  }
  const Shape x = lowering.local_shape(0);
  const std::int64_t count = x.front() * x.back();
  const Operand ties = lowering.scratch("ties", count);
  lowering.emit(MiddleTiesSpec{x.front(), places_of(x), x.back()},
                {lowering.input(0), lowering.output(), ties});
  lowering.all_reduce(letters_of_places(x), ElementType::float32, Reduction::sum, ties, count,
                      element_count(lowering.global_output_shape()), "ties of maxima");
  lowering.emit(MiddleMaximumGradientSpec{x.front(), places_of(x), x.back()},
                {lowering.input(0), lowering.output(), ties, lowering.output_gradient(),
                 lowering.input_gradient(0)});
}

}  // namespace meshwork

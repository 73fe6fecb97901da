#include "runtime/graph/operation.h"

#include "collectives/error.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {

Shape Operation::output_shape(std::span<const Shape> inputs) const {
  check_input_count(inputs, 1);
  return inputs[0];
}

Rule Operation::rule(std::span<const Shape> inputs) const {
  const std::string letters = dimension_letters(inputs[0].size());
  return {.inputs = std::vector<std::string>(inputs.size(), letters), .output = letters};
}

ElementType Operation::output_type(std::span<const ElementType> inputs) const {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] != ElementType::float32) {
      fail("expected float32 as input {}, found {}", i, name_of(inputs[i]));
    }
  }
  return ElementType::float32;
}

// One operation an element; what does more says so.
double Operation::flops(std::span<const Shape>, const Shape& output) const {
  return static_cast<double>(element_count(output));
}

double Operation::largest_share(char, std::int64_t parts, std::span<const Shape>) const {
  return 1 / static_cast<double>(parts);
}

Range Operation::window(int, int, Range output, std::span<const Shape>) const {
  return output;
}

bool Operation::takes_pieces(char letter, const Rule& rule) const {
  return (rule.whole + rule.own + rule.windows).find(letter) == std::string::npos;
}

std::vector<OwnReduction> Operation::own_reductions(const Rule&) const {
  return {};
}

bool Operation::backward_reads(int) const {
  return true;
}

Fusible Operation::fusible() const {
  return {};
}

}  // namespace meshwork

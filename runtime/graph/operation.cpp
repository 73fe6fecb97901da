#include "runtime/graph/operation.h"

#include "collectives/error.h"

namespace meshwork {

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

Range Operation::window(int, int, Range output, std::span<const Shape>) const {
  return output;
}

std::vector<OwnReduction> Operation::own_reductions(const Rule&) const {
  return {};
}

bool Operation::multiplies(int) const {
  return false;
}

bool Operation::backward_reads(int) const {
  return true;
}

std::unique_ptr<Operation> Operation::fused_with(const Operation&, int) const {
  return nullptr;
}

Activation Operation::ends_in() const {
  return Activation::linear;
}

bool Operation::takes_derivative(int, Activation) const {
  return false;
}

bool Operation::draws() const {
  return false;
}

std::optional<Epilogue> Operation::as_epilogue() const {
  return std::nullopt;
}

bool Operation::only_reshapes() const {
  return false;
}

std::unique_ptr<Operation> Operation::before_merging(std::size_t) const {
  return nullptr;
}

}  // namespace meshwork

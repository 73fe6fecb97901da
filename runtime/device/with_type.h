// From an element type that is known at run time to one that the compiler knows.
#pragma once

#include <cstdint>
#include <stdexcept>

#include "collectives/element_type.h"

namespace meshwork {

/// make(T()) with the type T that `type` names.
template <class Make>
auto with_type(ElementType type, const Make& make) {
  switch (type) {
    case ElementType::uint8:
      return make(std::uint8_t());
    case ElementType::int32:
      return make(std::int32_t());
    case ElementType::int64:
      return make(std::int64_t());
    case ElementType::float32:
      return make(float());
    case ElementType::float64:
      return make(double());
  }
  throw std::logic_error("an element type that there is not");
}

}  // namespace meshwork

// From an element type that is known at run time to one that the compiler knows, and back.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include "collectives/element_type.h"

namespace meshwork {

inline constexpr std::array element_types{ElementType::uint8, ElementType::int32,
                                          ElementType::int64, ElementType::float32,
                                          ElementType::float64};

/// make(T()) with the type T that `type` names.
template <class Make>
constexpr auto with_type(ElementType type, const Make& make) {
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

/// The element type of a C++ type.
template <class T>
[[nodiscard]] consteval ElementType element_type_of() {
  for (const ElementType type : element_types) {
    if (with_type(type, [](auto number) { return std::is_same_v<decltype(number), T>; })) {
      return type;
    }
  }
  throw std::logic_error("a type that elements do not have");
}

[[nodiscard]] constexpr bool is_integer(ElementType type) {
  return with_type(type, [](auto number) { return std::is_integral_v<decltype(number)>; });
}

}  // namespace meshwork

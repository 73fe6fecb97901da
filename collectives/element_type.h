// The element types that collectives carry and that tensors are made of.
#pragma once

#include <cstdint>
#include <string_view>

namespace meshwork {

enum class ElementType : std::uint8_t { uint8, int32, int64, float32, float64 };

/// Bytes of one element.
[[nodiscard]] constexpr std::int64_t element_bytes(ElementType type) {
  switch (type) {
    case ElementType::uint8:
      return 1;
    case ElementType::int32:
    case ElementType::float32:
      return 4;
    case ElementType::int64:
    case ElementType::float64:
      return 8;
  }
  return 0;
}

/// Of what networks compute with.
inline constexpr std::int64_t float32_bytes = element_bytes(ElementType::float32);

/// "float32" and so on, as NumPy names them.
[[nodiscard]] constexpr std::string_view name_of(ElementType type) {
  switch (type) {
    case ElementType::uint8:
      return "uint8";
    case ElementType::int32:
      return "int32";
    case ElementType::int64:
      return "int64";
    case ElementType::float32:
      return "float32";
    case ElementType::float64:
      return "float64";
  }
  return "?";
}

}  // namespace meshwork

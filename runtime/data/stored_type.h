// Which element type samples get whose elements a file stores in a type of its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "collectives/with_type.h"

namespace meshwork {

/// For integers of `bytes`: the first integer type that holds them all, else int64.
[[nodiscard]] constexpr ElementType integer_type(std::int64_t bytes, bool has_sign) {
  const auto* const found = std::ranges::find_if(element_types, [&](ElementType type) {
    return with_type(type, [&](auto number) {
      using Limits = std::numeric_limits<decltype(number)>;
      return Limits::is_integer && (Limits::is_signed || !has_sign) &&
             Limits::digits >= 8 * bytes - (has_sign ? 1 : 0);
    });
  });
  return found == element_types.end() ? ElementType::int64 : *found;
}

/// For numbers that are stored as `Stored`.
template <class Stored>
[[nodiscard]] consteval ElementType type_of_stored() {
  if constexpr (std::is_integral_v<Stored>) {
    return integer_type(sizeof(Stored), std::is_signed_v<Stored>);
  } else {
    return element_type_of<Stored>();
  }
}

}  // namespace meshwork

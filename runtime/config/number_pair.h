// Options that are one number or two, where two are the ends of a range: as in Keras they may be
// written in either order.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/config/node.h"

namespace meshwork {

/// Two numbers of a list, the smaller one first. Other nodes are errors: "expected `expected`".
template <class Number>
[[nodiscard]] std::pair<Number, Number> two_numbers(const ConfigNode& node, const char* expected) {
  const auto two = node.as<std::vector<Number>>();
  if (two.size() != 2) node.fail("expected {}, found {}", expected, two.size());
  return std::minmax({two[0], two[1]});
}

/// A `Pair` of one number, or of two, the smaller one first.
template <class Number, class Pair>
[[nodiscard]] Pair one_or_two_numbers(const ConfigNode& node) {
  if (!node.is_sequence()) return Pair(node.as<Number>());
  const auto [low, high] = two_numbers<Number>(node, "one number, or two");
  return Pair(low, high);
}

}  // namespace meshwork

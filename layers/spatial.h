// What the layers over sequences, images and volumes have in common: a length a dimension, and
// their options.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <vector>

#include "collectives/error.h"
#include "runtime/config/node.h"
#include "runtime/config/reader.h"
#include "runtime/graph/operations/windows.h"

namespace meshwork {

/// A length for rows and one for columns, as in `.kernel_size = 3` or `.kernel_size = {3, 5}`; of
/// volumes one for planes before them. In configurations `3` or `[3, 5]`.
template <std::size_t dimensions>
struct SeveralLengths {
  static constexpr const char* expected = dimensions == 2
                                              ? "a positive integer, or a list of two"
                                              : "a positive integer, or a list of three";
  std::array<std::int64_t, dimensions> of;
  SeveralLengths() : SeveralLengths(1) {}
  SeveralLengths(std::int64_t all) { of.fill(all); }
  SeveralLengths(std::int64_t rows, std::int64_t columns) requires(dimensions == 2)
      : of{rows, columns} {}
  SeveralLengths(std::int64_t planes, std::int64_t rows,
                 std::int64_t columns) requires(dimensions == 3)
      : of{planes, rows, columns} {}
  bool operator==(const SeveralLengths&) const = default;
};
/// One for a sequence, which is a number.
template <std::size_t dimensions>
using Lengths = std::conditional_t<dimensions == 1, std::int64_t, SeveralLengths<dimensions>>;

[[nodiscard]] inline std::array<std::int64_t, 1> by_dimension(std::int64_t length) {
  return {length};
}
template <std::size_t dimensions>
[[nodiscard]] std::array<std::int64_t, dimensions> by_dimension(
    const SeveralLengths<dimensions>& lengths) {
  return lengths.of;
}
/// Those of which options check the range.
template <std::size_t dimensions>
[[nodiscard]] std::array<std::int64_t, dimensions> numbers_of(
    const SeveralLengths<dimensions>& lengths) {
  return lengths.of;
}

/// "(3, 5)"; of a sequence "3".
[[nodiscard]] std::string text_of(const std::vector<std::int64_t>& lengths);
template <std::size_t dimensions>
[[nodiscard]] std::string to_text(const SeveralLengths<dimensions>& lengths) {
  return text_of({lengths.of.begin(), lengths.of.end()});
}

/// One positive integer, or a list of two or three.
template <std::size_t dimensions>
void from_config(const ConfigNode& node, SeveralLengths<dimensions>& lengths) {
  if (!node.is_sequence()) {
    lengths = node.as<std::int64_t>(positive);
    return;
  }
  const auto all = node.as<std::vector<std::int64_t>>(positive);
  if (all.size() != dimensions) {
    node.fail("expected one length, or {}, found {}",
              dimensions == 2 ? "two for rows and columns" : "three for planes, rows and columns",
              all.size());
  }
  std::copy(all.begin(), all.end(), lengths.of.begin());
}

/// "causal" is Conv1D's alone.
inline const auto image_paddings = by_name(std::array{Padding::valid, Padding::same});
constexpr const char* padding_help =
    "no zeros around the input (valid), or zeros that keep its length at stride 1 (same)";

/// No length that such an option gives, nor what a window spans, is larger, so that positions of
/// places can be counted.
constexpr std::int64_t most_length = std::int64_t{1} << 24;
inline constexpr ValueRange length = positive.up_to(most_length);

/// What such layers work on: "sequences (batch, steps, channels)".
[[nodiscard]] constexpr const char* form_of(std::size_t dimensions) {
  constexpr const char* forms[] = {"sequences (batch, steps, channels)",
                                   "images (batch, rows, columns, channels)",
                                   "volumes (batch, planes, rows, columns, channels)"};
  return forms[dimensions - 1];
}

/// Describes how windows slide.
template <class Options, class Visitor>
void describe_sliding(Options& options, Visitor& option) {
  option.required("kernel_size", options.kernel_size, length, "size of a window");
  option("strides", options.strides, length, "step between windows");
  option("dilation_rate", options.dilation_rate, length, "step between elements of a window");
}
/// The same, and how many outputs they have.
template <class Options, class Visitor>
void describe_windows(Options& options, Visitor& option) {
  option.required("filters", options.filters, length, "number of output channels");
  describe_sliding(options, option);
}

/// The windows that such options describe, by dimension.
template <class Options>
[[nodiscard]] std::vector<SlidingWindow> sliding_windows(const Options& of) {
  const auto sizes = by_dimension(of.kernel_size), strides = by_dimension(of.strides),
             steps = by_dimension(of.dilation_rate);
  std::vector<SlidingWindow> windows;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    windows.push_back({sizes[d], strides[d], steps[d], of.padding});
  }
  return windows;
}

/// Throws `Error` for windows of layer `layer` that span more than `most_length` elements.
template <class Options>
void check_spans(const std::string& layer, const Options& options) {
  std::vector<std::int64_t> sizes, steps, spans;
  for (const SlidingWindow& window : sliding_windows(options)) {
    sizes.push_back(window.window);
    steps.push_back(window.dilation);
    spans.push_back(window.extent());
  }
  if (*std::max_element(spans.begin(), spans.end()) > most_length) {
    fail(
        "{}: with `kernel_size` {} and `dilation_rate` {} a window spans {} elements; {} is the "
        "most",
        layer, text_of(sizes), text_of(steps), text_of(spans), most_length);
  }
}

}  // namespace meshwork

// What the layers over images have in common: lengths of rows and columns, and their options.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "collectives/error.h"
#include "runtime/config/node.h"
#include "runtime/config/reader.h"
#include "runtime/graph/operations/windows.h"

namespace meshwork {

/// A length for rows and one for columns, as in `.kernel_size = 3` or `.kernel_size = {3, 5}`; in
/// configurations `3` or `[3, 5]`.
struct RowsAndColumns {
  static constexpr const char* expected = "a positive integer, or a list of two";
  std::int64_t rows = 1, columns = 1;
  RowsAndColumns() = default;
  RowsAndColumns(std::int64_t both) : rows(both), columns(both) {}
  RowsAndColumns(std::int64_t of_rows, std::int64_t of_columns)
      : rows(of_rows), columns(of_columns) {}
  bool operator==(const RowsAndColumns&) const = default;
};

/// "(3, 5)".
[[nodiscard]] std::string to_string(const RowsAndColumns& lengths);

/// One positive integer, or a list of two.
void from_config(const ConfigNode& node, RowsAndColumns& lengths);
[[nodiscard]] inline std::string to_text(const RowsAndColumns& lengths) {
  return to_string(lengths);
}
/// Those of which options check the range.
[[nodiscard]] inline std::array<std::int64_t, 2> numbers_of(const RowsAndColumns& lengths) {
  return {lengths.rows, lengths.columns};
}

/// "causal" is Conv1D's alone.
inline const auto image_paddings = by_name(std::array{Padding::valid, Padding::same});
constexpr const char* padding_help =
    "no zeros around the input (valid), or those that keep its length at stride 1";

/// No length that such an option gives, nor what a window spans, is larger, so that positions of
/// places can be counted.
constexpr std::int64_t most_length = std::int64_t{1} << 24;
inline constexpr ValueRange length = positive.up_to(most_length);

/// Describes what says how many windows there are and how they slide.
template <class Options, class Visitor>
void describe_windows(Options& options, Visitor& option) {
  option.required("filters", options.filters, length, "number of output channels");
  option.required("kernel_size", options.kernel_size, length, "size of a window");
  option("strides", options.strides, length, "step between windows");
  option("dilation_rate", options.dilation_rate, length, "step between elements of a window");
}

/// The windows that such options describe: over rows and over columns, or over steps.
template <class Options>
[[nodiscard]] std::vector<SlidingWindow> sliding_windows(const Options& of) {
  if constexpr (std::is_same_v<decltype(of.kernel_size), RowsAndColumns>) {
    return {{of.kernel_size.rows, of.strides.rows, of.dilation_rate.rows, of.padding},
            {of.kernel_size.columns, of.strides.columns, of.dilation_rate.columns, of.padding}};
  } else {
    return {{of.kernel_size, of.strides, of.dilation_rate, of.padding}};
  }
}

/// Throws `Error` for windows of layer `layer` that span more than `most_length` elements.
template <class Options>
void check_spans(const std::string& layer, const Options& options) {
  using std::to_string;
  auto spans = options.kernel_size;
  const std::vector<SlidingWindow> windows = sliding_windows(options);
  if constexpr (std::is_same_v<decltype(spans), RowsAndColumns>) {
    spans = {windows[0].extent(), windows[1].extent()};
  } else {
    spans = windows[0].extent();
  }
  if (std::any_of(windows.begin(), windows.end(),
                  [](const SlidingWindow& window) { return window.extent() > most_length; })) {
    fail(
        "{}: with `kernel_size` {} and `dilation_rate` {} a window spans {} elements; {} is the "
        "most",
        layer, to_string(options.kernel_size), to_string(options.dilation_rate), to_string(spans),
        most_length);
  }
}

}  // namespace meshwork

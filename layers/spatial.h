// What the layers over images have in common: lengths of rows and columns, and their options.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/node.h"
#include "runtime/config/reader.h"
#include "runtime/graph/operations/windows.h"

namespace meshwork {

/// A length for rows and one for columns, as in `.kernel_size = 3` or `.kernel_size = {3, 5}`; in
/// configurations `3` or `[3, 5]`.
struct RowsAndColumns {
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
/// "valid" or "same"; "causal" is not everybody's.
void from_config(const ConfigNode& node, Padding& padding);

/// No length that such an option gives, nor what a window spans, is larger, so that positions of
/// places can be counted.
constexpr std::int64_t most_length = std::int64_t{1} << 24;

/// Throws `Error` unless option `option` of layer `layer`, one length or both, is positive and not
/// above `most_length`.
void check_length(const std::string& layer, std::string_view option, const RowsAndColumns& lengths);
void check_length(const std::string& layer, std::string_view option, std::int64_t length);
/// Throws `Error` for windows of layer `layer` that span more than `most_length` elements.
void check_spans(const std::string& layer, const RowsAndColumns& kernel_size,
                 const RowsAndColumns& dilation_rate);
void check_spans(const std::string& layer, std::int64_t kernel_size, std::int64_t dilation_rate);

/// Throws `Error` for "causal" padding, which only Conv1D knows.
void check_not_causal(const std::string& layer, Padding padding);

/// Reads what says how many windows there are and how they slide: filters, kernel_size, strides and
/// dilation_rate.
template <class Options>
void read_windows(ConfigReader& reader, Options& options) {
  reader.required("filters", options.filters, positive);
  reader.required("kernel_size", options.kernel_size, positive);
  reader.optional("strides", options.strides, positive);
  reader.optional("dilation_rate", options.dilation_rate, positive);
}

/// The windows over rows and over columns that such options of images describe.
template <class Options>
[[nodiscard]] std::vector<SlidingWindow> sliding_windows(const Options& of) {
  return {{of.kernel_size.rows, of.strides.rows, of.dilation_rate.rows, of.padding},
          {of.kernel_size.columns, of.strides.columns, of.dilation_rate.columns, of.padding}};
}

}  // namespace meshwork

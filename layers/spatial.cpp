#include "layers/spatial.h"

#include <algorithm>
#include <vector>

#include "collectives/error.h"

namespace meshwork {
namespace {

std::int64_t span_of(std::int64_t kernel_size, std::int64_t dilation_rate) {
  return SlidingWindow{.window = kernel_size, .dilation = dilation_rate}.extent();
}

[[noreturn]] void fail_with_spans(const std::string& layer, const std::string& kernel_size,
                                  const std::string& dilation_rate, const std::string& spans) {
  fail(
      "{}: with `kernel_size` {} and `dilation_rate` {} a window spans {} elements; {} is the most",
      layer, kernel_size, dilation_rate, spans, most_length);
}

}  // namespace

std::string to_string(const RowsAndColumns& lengths) {
  return fmt::format("({}, {})", lengths.rows, lengths.columns);
}

void from_config(const ConfigNode& node, RowsAndColumns& lengths) {
  if (!node.is_sequence()) {
    lengths = node.as<std::int64_t>(positive);
    return;
  }
  const auto both = node.as<std::vector<std::int64_t>>(positive);
  if (both.size() != 2) {
    node.fail("expected one length, or two for rows and columns, found {}", both.size());
  }
  lengths = {both[0], both[1]};
}

void check_spans(const std::string& layer, const RowsAndColumns& kernel_size,
                 const RowsAndColumns& dilation_rate) {
  const RowsAndColumns spans{span_of(kernel_size.rows, dilation_rate.rows),
                             span_of(kernel_size.columns, dilation_rate.columns)};
  if (std::max(spans.rows, spans.columns) > most_length) {
    fail_with_spans(layer, to_string(kernel_size), to_string(dilation_rate), to_string(spans));
  }
}

void check_spans(const std::string& layer, std::int64_t kernel_size, std::int64_t dilation_rate) {
  const std::int64_t span = span_of(kernel_size, dilation_rate);
  if (span > most_length) {
    fail_with_spans(layer, std::to_string(kernel_size), std::to_string(dilation_rate),
                    std::to_string(span));
  }
}

}  // namespace meshwork

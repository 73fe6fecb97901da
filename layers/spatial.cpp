#include "layers/spatial.h"

#include <vector>

#include "collectives/error.h"

namespace meshwork {

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

void from_config(const ConfigNode& node, Padding& padding) {
  padding = node.choice<Padding>({{"valid", Padding::valid}, {"same", Padding::same}});
}

void check_positive(const std::string& layer, std::string_view option,
                    const RowsAndColumns& lengths) {
  if (lengths.rows < 1 || lengths.columns < 1) {
    fail("{}: `{}` is {}; both have to be positive", layer, option, to_string(lengths));
  }
}

void check_positive(const std::string& layer, std::string_view option, std::int64_t length) {
  if (length < 1) {
    fail("{}: `{}` is {}; it has to be positive", layer, option, length);
  }
}

void check_not_causal(const std::string& layer, Padding padding) {
  if (padding == Padding::causal) {
    fail("{}: `padding` is \"causal\", which Conv1D has alone; expected \"valid\" or \"same\"",
         layer);
  }
}

}  // namespace meshwork

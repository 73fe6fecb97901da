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

}  // namespace meshwork

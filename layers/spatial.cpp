#include "layers/spatial.h"

#include <fmt/format.h>

#include "collectives/joined_text.h"

namespace meshwork {

std::string text_of(const std::vector<std::int64_t>& lengths) {
  return lengths.size() == 1 ? fmt::format("{}", lengths[0])
                             : fmt::format("({})", joined_text(lengths, ", "));
}

}  // namespace meshwork

#include "layers/spatial.h"

#include <fmt/ranges.h>

namespace meshwork {

std::string text_of(const std::vector<std::int64_t>& lengths) {
  return lengths.size() == 1 ? fmt::format("{}", lengths[0])
                             : fmt::format("({})", fmt::join(lengths, ", "));
}

}  // namespace meshwork

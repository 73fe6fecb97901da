#include "runtime/data/categories.h"

#include <fmt/format.h>

#include "collectives/fnv1a.h"

namespace meshwork {

std::string to_text(const Categories& categories) {
  std::string all;
  for (const std::string& text : categories.texts) {
    all += fmt::format("{}:{}", text.size(), text);
  }
  return fmt::format("{} ({}: {:016x})", categories.name, categories.texts.size(), fnv1a(all));
}

}  // namespace meshwork

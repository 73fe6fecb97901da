#include "runtime/train/loop/training.h"

#include <algorithm>

namespace meshwork {

std::vector<std::string> log_names_of(std::span<const std::string> sums, bool gradient_norm,
                                      bool validated, std::span<const std::string> added) {
  std::vector<std::string> names(sums.begin(), sums.end());
  if (gradient_norm) {
    names.emplace_back(gradient_norm_name);
  }
  if (validated) {
    for (const std::string& name : sums) {
      names.push_back("val_" + name);
    }
  }
  for (const std::string& name : added) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(name);
    }
  }
  return names;
}

std::optional<Better> better_of(const std::string& log_name,
                                const std::map<std::string, Better>& known) {
  const auto found = known.find(log_name.starts_with("val_") ? log_name.substr(4) : log_name);
  return found == known.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace meshwork

#include "runtime/train/training.h"

namespace meshwork {

std::optional<Better> better_of(const std::string& log_name,
                                std::span<const SharedMetric> metrics) {
  const std::string name = log_name.starts_with("val_") ? log_name.substr(4) : log_name;
  if (name == "loss") {
    return Better::lower;
  }
  for (const SharedMetric& metric : metrics) {
    if (metric->name() == name) {
      return metric->better();
    }
  }
  return std::nullopt;
}

}  // namespace meshwork

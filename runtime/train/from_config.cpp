#include "runtime/train/from_config.h"

#include <memory>
#include <utility>

namespace meshwork {
void from_config(const ConfigNode& node, Schedule& schedule, const Catalog& catalog) {
  if (node.is_scalar() && catalog.find<Schedule>(node.single_entry().name) == nullptr) {
    schedule = node.as<double>(finite_not_negative);
  } else {
    schedule = catalog.make<Schedule>(node);
  }
}

std::string to_text(const Schedule& schedule) {
  const std::string& options = schedule.options();
  return schedule.name() + (options.empty() ? "" : " of ") + options;
}

SharedMetric metric_from_config(const ConfigNode& node, const Catalog& catalog) {
  const ConfigEntry entry = node.single_entry("a metric");
  SharedMetric metric;
  std::string class_name;
  if (const auto* const found = catalog.find<SharedMetric>(entry.name)) {
    metric = catalog.make<SharedMetric>(node);
    class_name = found->class_name;
  } else if (const auto* const loss = catalog.find<SharedLoss>(entry.name)) {
    metric = catalog.make<SharedLoss>(node);
    class_name = loss->class_name;
  } else {
    std::vector<std::string> known = catalog.names_like<SharedMetric>(entry.name);
    for (std::string& name : catalog.names_like<SharedLoss>(entry.name)) {
      known.push_back(std::move(name));
    }
    throw entry.key.unknown("metric", known);
  }
  if (class_name != entry.name && !entry.value.find("name")) {
    return metric_of(entry.name, metric->better(), metric, [](double value) { return value; });
  }
  return metric;
}

std::vector<SharedMetric> metrics_from_config(const ConfigNode& node, const Catalog& catalog) {
  std::vector<SharedMetric> all;
  ConfigErrors errors;
  if (!node.is_null()) {
    for (const ConfigNode& element : node.elements()) {
      errors.check([&] { all.push_back(metric_from_config(element, catalog)); });
    }
  }
  errors.raise();
  node.located([&] { check_metric_names(all); });
  return all;
}

std::string to_text(const SharedCallback& callback) {
  return callback->class_name();
}

}  // namespace meshwork

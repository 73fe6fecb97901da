#include "runtime/train/reporting/logs.h"

#include <algorithm>
#include <tuple>

#include "collectives/error.h"
#include "runtime/config/nearest.h"

namespace meshwork {

Logs::Logs(std::initializer_list<Entry> entries) {
  for (const auto& [name, value] : entries) {
    set(name, value);
  }
}

void Logs::set(std::string_view name, double value) {
  for (auto& [known, old] : entries_) {
    if (known == name) {
      old = value;
      return;
    }
  }
  entries_.emplace_back(name, value);
}

std::optional<double> Logs::find(std::string_view name) const {
  for (const auto& [known, value] : entries_) {
    if (known == name) {
      return value;
    }
  }
  return std::nullopt;
}

double Logs::at(std::string_view name) const {
  const std::optional<double> value = find(name);
  if (!value) {
    const std::vector<std::string> known = names();
    fail("there is no \"{}\" in the logs (there are: {}){}", name, quoted_list(known),
         did_you_mean(name, known));
  }
  return *value;
}

std::vector<std::string> Logs::names() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_) {
    names.push_back(entry.first);
  }
  return names;
}

std::vector<Logs::Entry> Logs::in_display_order() const {
  const auto place = [](const std::string& name) {
    return name == "learning_rate" ? 2 : name.starts_with("val_") ? 1 : 0;
  };
  std::vector<Entry> sorted = entries_;
  std::sort(sorted.begin(), sorted.end(), [&](const Entry& a, const Entry& b) {
    return std::make_tuple(place(a.first), a.first) < std::make_tuple(place(b.first), b.first);
  });
  return sorted;
}

}  // namespace meshwork

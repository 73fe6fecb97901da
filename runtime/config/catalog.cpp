#include "runtime/config/catalog.h"

#include <algorithm>

#include "collectives/error.h"
#include "runtime/config/nearest.h"

namespace meshwork {

void Catalog::check_class_name(const char* kind, const std::string& name) {
  if (!is_class_name(name)) {
    fail("the {} class \"{}\" does not begin with a capital letter", kind, name);
  }
}

void Catalog::check_options_of(const char* kind, const std::string& name,
                               const Explained& explained,
                               const std::vector<std::string>& other_keys) {
  for (const OptionText& option : explained.options) {
    if (std::ranges::find(other_keys, option.name) == other_keys.end()) continue;
    fail(
        "the {0} class \"{1}\" has an option \"{2}\", and \"{2}\" is a key of every {0}; give the "
        "option another name",
        kind, name, option.name);
  }
}

std::string Catalog::name_like(const std::string& written, const std::string& class_name,
                               const std::vector<std::string>& short_names) {
  std::vector<std::string> alike;
  if (is_class_name(written)) alike.push_back(class_name);
  for (const std::string& name : short_names) {
    if (is_class_name(name) == is_class_name(written)) alike.push_back(name);
  }
  if (alike.empty()) return class_name;
  const std::string nearest = nearest_name(written, alike);
  return nearest.empty() ? alike.front() : nearest;
}

}  // namespace meshwork

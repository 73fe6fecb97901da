#include "runtime/graph/layer_registry.h"

#include <dlfcn.h>

#include <exception>
#include <filesystem>
#include <utility>

#include "collectives/error.h"

namespace meshwork {
namespace {

constexpr const char* entry_point = "meshwork_register";

std::string loader_message() {
  const char* message = dlerror();
  return message ? message : "no reason given";
}

}  // namespace

void LayerRegistry::add(const std::string& class_name, Factory factory) {
  if (class_name.empty() || class_name[0] < 'A' || class_name[0] > 'Z') {
    fail("the layer class \"{}\" does not begin with a capital letter", class_name);
  }
  if (!factories_.try_emplace(class_name, std::move(factory)).second) {
    fail("there are two layer classes \"{}\"", class_name);
  }
}

bool LayerRegistry::contains(const std::string& class_name) const {
  return factories_.contains(class_name);
}

std::vector<std::string> LayerRegistry::class_names() const {
  std::vector<std::string> names;
  for (const auto& [name, factory] : factories_) {
    names.push_back(name);
  }
  return names;
}

SharedLayer LayerRegistry::make(const ConfigNode& layer) const {
  const ConfigEntry entry = layer.single_entry("a layer");
  const auto found = factories_.find(entry.name);
  if (found == factories_.end()) {
    throw entry.key.unknown("layer", class_names());
  }
  return entry.value.located([&] { return found->second(entry.value, *this); });
}

void load_plugin(const std::string& path, LayerRegistry& registry) {
  std::error_code problem;
  if (!std::filesystem::is_regular_file(path, problem)) {
    fail("cannot load layers from {}: there is no such file", path);
  }
  // Without a slash the loader would look in its own folders.
  const std::string file = std::filesystem::absolute(path).string();
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fail("cannot load layers from {}: {}", path, loader_message());
  }
  dlerror();
  void* symbol = dlsym(library, entry_point);
  if (!symbol) {
    const std::string reason = loader_message();
    dlclose(library);
    fail(
        "{} has no layers for Meshwork: it does not define extern \"C\" void {}"
        "(meshwork::LayerRegistry&) ({})",
        path, entry_point, reason);
  }
  using Register = void (*)(LayerRegistry&);
  try {
    reinterpret_cast<Register>(symbol)(registry);
  } catch (const std::exception& error) {
    fail("cannot load layers from {}: {}", path, error.what());
  }
}

}  // namespace meshwork

#include "runtime/config/catalog.h"

#include <dlfcn.h>

#include <exception>
#include <filesystem>

#include "collectives/error.h"
#include "runtime/config/nearest.h"

namespace meshwork {
namespace {

constexpr const char* entry_point = "meshwork_register";

std::string loader_message() {
  const char* message = dlerror();
  return message ? message : "no reason given";
}

}  // namespace

void Catalog::check_class_name(const char* kind, const std::string& name) {
  if (!is_class_name(name)) {
    fail("the {} class \"{}\" does not begin with a capital letter", kind, name);
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

void load_plugin(const std::string& path, Catalog& catalog) {
  std::error_code problem;
  if (!std::filesystem::is_regular_file(path, problem)) {
    fail("cannot load {}: there is no such file", path);
  }
  // Without a slash the loader would look in its own folders.
  const std::string file = std::filesystem::absolute(path).string();
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fail("cannot load {}: {}", path, loader_message());
  }
  dlerror();
  void* symbol = dlsym(library, entry_point);
  if (!symbol) {
    const std::string reason = loader_message();
    dlclose(library);
    fail(
        "{} is no extension of Meshwork: it does not define extern \"C\" void {}"
        "(meshwork::Catalog&) ({})",
        path, entry_point, reason);
  }
  using Register = void (*)(Catalog&);
  try {
    reinterpret_cast<Register>(symbol)(catalog);
  } catch (const std::exception& error) {
    fail("cannot load {}: {}", path, error.what());
  }
}

}  // namespace meshwork

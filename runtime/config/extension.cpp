#include "runtime/config/extension.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdint>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include "collectives/error.h"

namespace meshwork {
namespace {

struct Close {
  void operator()(void* library) const { dlclose(library); }
};
using Library = std::unique_ptr<void, Close>;

std::string loader_message() {
  const char* message = dlerror();
  return message ? message : "no reason given";
}

// The function `name` of a library. Throws `Error` if there is none.
template <class Function>
Function* function_of(void* library, const char* name, const std::string& path) {
  dlerror();
  void* const symbol = dlsym(library, name);
  if (symbol == nullptr) {
    fail(
        "{} is no extension of Meshwork: it lacks the line MESHWORK_EXTENSION(catalog) {{ ... }} "
        "of "
        "<meshwork/extension.h> ({})",
        path, loader_message());
  }
  return reinterpret_cast<Function*>(symbol);
}

// The loader maps a file that was copied in part, and dies of what is missing: its section headers
// are at the end.
void require_whole(const std::string& path) {
  ElfW(Ehdr) head{};
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(&head), sizeof head);
  if (!file || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) return;  // which the loader tells
  const std::uintmax_t bytes = std::filesystem::file_size(path);
  const std::uintmax_t all = head.e_shoff + std::uintmax_t{head.e_shnum} * head.e_shentsize;
  if (bytes < all) {
    fail("cannot load {}: it is cut short, {} bytes of at least {}; copy it again", path, bytes,
         all);
  }
}

// Whether this code is part of the program's own file. A library that is loaded has another copy
// then, of all that is there once.
bool is_in_program() {
  static const char here = 0;
  Dl_info info{};
  void* file = nullptr;
  return dladdr1(&here, &info, &file, RTLD_DL_LINKMAP) != 0 &&
         static_cast<const link_map*>(file)->l_prev == nullptr;
}

}  // namespace

void load_extension(const std::string& path, Catalog& catalog) {
  std::error_code problem;
  if (!std::filesystem::is_regular_file(path, problem)) {
    fail("cannot load {}: {}", path,
         std::filesystem::is_directory(path, problem)
             ? "this is a directory; expected a shared library"
             : "there is no such file");
  }
  if (is_in_program()) {
    fail(
        "cannot load {}: this program has Meshwork as a static library, which it does not share "
        "with extensions; build it with BUILD_SHARED_LIBS=ON",
        path);
  }
  // Without a slash the loader would look in its own folders.
  const std::string file = std::filesystem::canonical(path).string();
  if (catalog.extensions().contains(file)) return;
  require_whole(path);
  const auto opened = [&](int when) {
    Library library(dlopen(file.c_str(), when | RTLD_LOCAL));
    if (!library) fail("cannot load {}: {}", path, loader_message());
    return library;
  };
  {
    // One of another version may lack what it wants of this one.
    const Library library = opened(RTLD_LAZY);
    const char* const version =
        function_of<const char*()>(library.get(), "meshwork_extension_of", path)();
    if (version == nullptr || version != std::string_view(MESHWORK_VERSION)) {
      fail("{} is built for Meshwork {}, and this is {}: build it anew", path,
           version != nullptr ? version : "of no version", MESHWORK_VERSION);
    }
  }
  Library library = opened(RTLD_NOW);
  auto* const enter = function_of<void(Catalog&)>(library.get(), "meshwork_register", path);
  static_cast<void>(library.release());  // what it enters refers to it
  Catalog extended = catalog;
  extended.enter_for(path);
  try {
    enter(extended);
  } catch (const std::exception& error) {
    fail("cannot load {}: {}", path, message_of(error));
  } catch (...) {
    fail("cannot load {}: an exception of unknown type", path);
  }
  extended.enter_for("");
  extended.add_extension(file);
  catalog = std::move(extended);
}

}  // namespace meshwork

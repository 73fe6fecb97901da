// Shared libraries of a user's.
#include "runtime/config/extension.h"

#include <filesystem>
#include <fstream>

#include "layers/identity.h"
#include "layers/pages.h"
#include "runtime/config/load.h"
#include "runtime/device/device.h"
#include "runtime/graph/layer_config.h"
#include "tests/support/catch.h"

namespace meshwork::extension_test {

namespace {

ConfigNode parsed(const std::string& text) {
  return parse_config(text, "test.yaml");
}

std::string extension(const std::string& name) {
  return MESHWORK_TEST_EXTENSIONS + name + ".so";
}

}  // namespace

TEST_CASE("a library that cannot be loaded is an error that says why") {
  Catalog catalog;
  CHECK_THROWS_WITH(load_extension("not/there.so", catalog),
                    "cannot load not/there.so: there is no such file");
  std::ofstream("text.so") << "no library\n";
  CHECK_THROWS_WITH(load_extension("text.so", catalog), Catch::StartsWith("cannot load text.so: "));
  std::filesystem::create_directory("folder.so");
  CHECK_THROWS_WITH(load_extension("folder.so", catalog),
                    "cannot load folder.so: this is a directory; expected a shared library");
  std::filesystem::copy_file(extension("doubled"), "cut.so",
                             std::filesystem::copy_options::overwrite_existing);
  std::filesystem::resize_file("cut.so", std::filesystem::file_size("cut.so") / 2);
  CHECK_THROWS_WITH(load_extension("cut.so", catalog),
                    Catch::StartsWith("cannot load cut.so: it is cut short, "));
}

TEST_CASE("an extension adds its layers, once") {
  Catalog catalog;
  add_layers(catalog);
  load_extension(extension("doubled"), catalog);
  load_extension(extension("doubled"), catalog);
  CHECK(catalog.extensions().size() == 1);
  REQUIRE(catalog.find<SharedLayer>("Doubled") != nullptr);
  const auto x = Input({3});
  const auto y = catalog.make<SharedLayer>(parsed("{Doubled: {name: twice}}"))(x);
  const Graph graph = make_graph({x}, {y});
  CHECK(graph.paths() == std::vector<std::string>{"twice/factor", "twice/output"});
  CHECK_THROWS_WITH(
      catalog.make<SharedLayer>(parsed("{Doubled: {factor: 3}}")),
      Catch::Contains("factor") &&
          Catch::EndsWith("(meshwork reference Doubled --extension " + extension("doubled") + ")"));
  CHECK_THROWS_WITH(catalog.make<SharedLayer>(parsed("{Dense: {factor: 3}}")),
                    Catch::EndsWith("(meshwork reference Dense)"));
  std::filesystem::copy_file(extension("doubled"), "copy.so",
                             std::filesystem::copy_options::overwrite_existing);
  CHECK_THROWS_WITH(
      load_extension("copy.so", catalog),
      "cannot load copy.so: there are two layer classes \"Doubled\"; the other is of " +
          extension("doubled"));
  // Another catalog of the same classes, and one that goes on from it.
  Catalog other;
  load_extension(extension("doubled"), other);
  Catalog copy = other;
  const auto make = [](const ConfigNode&, const Catalog&) { return Identity({}); };
  copy.enter<SharedLayer>({"Own", {"own"}, make, nullptr});
  CHECK(copy.find<SharedLayer>("Own")->library.empty());
  CHECK(other.find<SharedLayer>("Own") == nullptr);
  CHECK_THROWS_WITH(copy.enter<SharedLayer>({"Other", {"own"}, make, nullptr}),
                    "there are two layer classes \"own\": Own and Other");
}

TEST_CASE("a library that is no extension, or one of another version, is an error that says so") {
  Catalog catalog;
  CHECK_THROWS_WITH(load_extension(extension("empty"), catalog),
                    Catch::Contains("is no extension of Meshwork: it lacks the line "
                                    "MESHWORK_EXTENSION(catalog) { ... }"));
  CHECK_THROWS_WITH(load_extension(extension("older"), catalog),
                    Catch::Contains("is built for Meshwork 0.0.9, and this is ") &&
                        Catch::EndsWith(": build it anew"));
  CHECK_THROWS_WITH(load_extension(extension("throwing"), catalog),
                    Catch::EndsWith("throwing.so: it lacks 1 files"));
  CHECK(catalog.extensions().empty());
  CHECK(catalog.described().empty());
}

TEST_CASE("two libraries with kernels of one name are named by the device") {
  Catalog catalog;
  load_extension(extension("kernels"), catalog);
  CHECK_NOTHROW(make_device({.kind = "cpu"}));
  std::filesystem::copy_file(extension("kernels"), "other.so",
                             std::filesystem::copy_options::overwrite_existing);
  load_extension("other.so", catalog);
  CHECK_THROWS_WITH(make_device({.kind = "cpu"}),
                    extension("kernels") + " and " +
                        std::filesystem::canonical("other.so").string() +
                        " each have a specification of kernels called same::Spec; it belongs in an "
                        "unnamed namespace");
}

}  // namespace meshwork::extension_test

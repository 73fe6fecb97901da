// A program with Meshwork in its own file, as this one.
#include <fstream>

#include "runtime/config/extension.h"
#include "tests/support/catch.h"

namespace meshwork::static_program_test {

TEST_CASE("a program that has Meshwork as a static library loads no extensions") {
  std::ofstream("any.so") << "any\n";
  Catalog catalog;
  CHECK_THROWS_WITH(load_extension("any.so", catalog),
                    "cannot load any.so: this program has Meshwork as a static library, which it "
                    "does not share with extensions; build it with BUILD_SHARED_LIBS=ON");
}

}  // namespace meshwork::static_program_test

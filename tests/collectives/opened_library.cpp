#include "collectives/opened_library.h"

#include "tests/support/catch.h"

namespace meshwork::opened_library_test {

TEST_CASE(
    "libraries for GPUs are beside the library, or beside those for each level of processor") {
  CHECK(folder_of_libraries("/usr/lib/libmeshwork.so.0") == "/usr/lib");
  CHECK(folder_of_libraries("/usr/lib/glibc-hwcaps/x86-64-v3/libmeshwork.so.0") == "/usr/lib");
  CHECK(folder_of_libraries("/opt/x86-64-v3/libmeshwork.so.0") == "/opt/x86-64-v3");
}

}  // namespace meshwork::opened_library_test

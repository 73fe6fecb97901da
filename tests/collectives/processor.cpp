#include "collectives/processor.h"

#include <iterator>
#include <string_view>

#include "tests/support/catch.h"

namespace meshwork::processor_test {

#if defined(__x86_64__)
namespace {

/// Whether this library is compiled for a set.
bool is_required(std::string_view name) {
  constexpr std::string_view names[] = {
#define MESHWORK_NAME(name, macro) name,
      MESHWORK_INSTRUCTION_SETS(MESHWORK_NAME)
#undef MESHWORK_NAME
  };
  for (std::size_t i = 0; i < std::size(names); ++i) {
    if (names[i] == name) return (required_instruction_sets >> i & 1) != 0;
  }
  FAIL("there is no such set");
  return false;
}

}  // namespace

TEST_CASE("what the compiler was told is what is required") {
  CHECK(required_instruction_sets == MESHWORK_COMPILED_FOR);
#if defined(__AVX2__)
  CHECK(is_required("avx2"));
#else
  CHECK_FALSE(is_required("avx2"));
#endif
#if defined(__AVX512VL__)
  CHECK(is_required("avx512vl"));
#else
  CHECK_FALSE(is_required("avx512vl"));
#endif
}

TEST_CASE("the comparison is made before main") {
  CHECK(processor_was_compared);
}
#endif

}  // namespace meshwork::processor_test

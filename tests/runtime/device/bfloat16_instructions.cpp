#include "runtime/device/cpu/bfloat16_instructions.h"

#include "tests/support/catch.h"

namespace meshwork::cpu::bfloat16_instructions_test {

TEST_CASE("bfloat16 is multiplied by instructions only where they are faster than float32's") {
  CHECK_FALSE(is_used({}));
  CHECK(is_used({.avx512 = true}));
  CHECK_FALSE(is_used({.avx512 = true, .quarter_rate = true}));
  CHECK(is_used({.avx512 = true, .tiles = true, .quarter_rate = true}));
}

}  // namespace meshwork::cpu::bfloat16_instructions_test

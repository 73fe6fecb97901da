#include "runtime/device/kernels/masks.h"

#include <limits>

#include "tests/runtime/device/support.h"

namespace meshwork::test::masks_test {

TEST_CASE("a row counts if one of its columns is not the value, and a mask before counts it") {
  Array<> x{0, 0, 0, 1, -0.0f, 0, 2, 3}, y(4);
  run(MaskSpec{.rows = 4, .columns = 2}, x, y);
  CHECK(y.values() == std::vector<float>{0, 1, 0, 1});
  Array<std::int32_t> numbers{5, 0, 5, -1};
  run(MaskSpec{.rows = 4, .columns = 1, .type = ElementType::int32, .value = 5}, numbers, y);
  CHECK(y.values() == std::vector<float>{0, 1, 0, 1});
  Array<> before{1, 0};
  run(MaskSpec{.rows = 4, .columns = 1, .type = ElementType::int32, .value = 5, .rows_a_mask = 2},
      numbers, before, y);
  CHECK(y.values() == std::vector<float>{0, 1, 0, 0});
  run(MaskSpec{.rows = 4, .columns = 0}, x, y);
  CHECK(y.values() == std::vector<float>{0, 0, 0, 0});
}

TEST_CASE("a NaN counts, and is not multiplied by 0 where its row does not") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Array<> x{nan, 0, 2, nan}, y(4), mask(2), other{0, 1};
  run(MaskSpec{.rows = 2, .columns = 2}, x, mask);
  CHECK(mask.values() == std::vector<float>{1, 1});
  run(MaskedRowsSpec{2, 2}, x, other, y);
  CHECK((y[0] == 0 && y[1] == 0 && y[2] == 2 && y[3] != y[3]));
}

TEST_CASE("class numbers of rows that do not count are no class, and the others are counted") {
  Array<std::int32_t> t{2, 0, 7, 5}, y(4);
  Array<> mask{1, 0}, of_rows{0, 1, 1, 0};
  run(MaskedClassSpec{4, 2}, t, mask, y);
  CHECK(y.values() == std::vector<std::int32_t>{2, 0, -1, -1});
  run(MaskedClassSpec{4, 1}, t, of_rows, y);
  CHECK(y.values() == std::vector<std::int32_t>{-1, 0, 7, -1});
  Array<double> n(1);
  run(MaskCountSpec{4, 3}, of_rows, n);
  CHECK(n[0] == 6);
  run(MaskCountSpec{0}, of_rows, n);
  CHECK(n[0] == 0);
}

}  // namespace meshwork::test::masks_test

#include "runtime/device/kernels/category_encoding.h"

#include <limits>

#include "tests/runtime/device/support.h"

namespace meshwork::test::category_encoding_test {

TEST_CASE("the column of each category of a row becomes 1, or how often the row has it") {
  Array<> x{0, 3, 3, 1, 2, 2}, marks(std::vector<float>(8, 0)), counts(std::vector<float>(8, 0));
  run(CategoryEncodingSpec{.rows = 2, .length = 3, .columns = 4}, x, marks);
  CHECK(marks.values() == std::vector<float>{1, 0, 0, 1, 0, 1, 1, 0});
  run(CategoryEncodingSpec{.rows = 2, .length = 3, .columns = 4, .counts = true}, x, counts);
  CHECK(counts.values() == std::vector<float>{1, 0, 0, 2, 0, 1, 2, 0});
}

TEST_CASE("categories of other columns, and what is no category, mark nothing") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  Array<> x{4, 5, 6, 7, -1, 1e30f, infinity, nan}, y(std::vector<float>(16, 0));
  run(CategoryEncodingSpec{.rows = 8, .first = 5, .columns = 2}, x, y);
  CHECK(y.values() == std::vector<float>{0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("categories of int32 are encoded as those of float32") {
  Array<std::int32_t> x{4, 5, 6, 5, -1, 1 << 30};
  Array<> marks(std::vector<float>(6, 0)), counts(std::vector<float>(4, 0));
  CategoryEncodingSpec spec{
      .rows = 3, .length = 2, .first = 5, .columns = 2, .type = ElementType::int32};
  run(spec, x, marks);
  CHECK(marks.values() == std::vector<float>{1, 0, 1, 1, 0, 0});
  Array<std::int32_t> twice{5, 5, 6, 5};
  spec = {
      .rows = 2, .length = 2, .first = 5, .columns = 2, .counts = true, .type = ElementType::int32};
  run(spec, twice, counts);
  CHECK(counts.values() == std::vector<float>{2, 0, 1, 1});
}

TEST_CASE("rows or columns that a rank has none of are encoded as nothing") {
  Array<> x{1, 2}, none(0);
  run(CategoryEncodingSpec{.rows = 2, .columns = 0}, x, none);
  run(CategoryEncodingSpec{.rows = 0, .columns = 3}, none, none);
  Array<> y(std::vector<float>(6, 0));
  run(CategoryEncodingSpec{.rows = 2, .length = 0, .columns = 3}, none, y);
  CHECK(y.values() == std::vector<float>(6, 0));
}

TEST_CASE("many rows are encoded by as many threads as there are") {
  constexpr std::int64_t rows = 20'011, columns = 7;
  std::vector<float> numbers;
  std::vector<float> expected(rows * columns, 0);
  for (std::int64_t row = 0; row < rows; ++row) {
    numbers.push_back(static_cast<float>(row * row % columns));
    expected[row * columns + row * row % columns] = 1;
  }
  Array<> x(numbers), y(std::vector<float>(rows * columns, 0));
  run(CategoryEncodingSpec{.rows = rows, .columns = columns}, x, y);
  CHECK(y.values() == expected);
}

}  // namespace meshwork::test::category_encoding_test

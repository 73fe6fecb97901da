#include "runtime/device/kernels/embedding.h"

#include "tests/runtime/device/support.h"

namespace meshwork::test::embedding_test {

TEST_CASE("rows of a table are found by number, and their gradients are added up where they lie") {
  for (const std::int64_t rows : {0, 1, 7, 400}) {
    for (const std::int64_t columns : {1, 5, 16, 130}) {
      for (const std::int64_t first : {0, 3}) {
        constexpr std::int64_t held = 9, all = 14;
        INFO(rows << " rows, " << columns << " columns, from " << first);
        std::vector<std::int32_t> numbers;
        for (std::int64_t i = 0; i < rows; ++i)
          numbers.push_back(static_cast<std::int32_t>(i * i % all));
        const std::vector<float> values = random_values(held * columns, 1);
        const std::vector<float> gradients = random_values(rows * columns, 2);
        Array<std::int32_t> of_rows(numbers);
        Array<> table(values), dy(gradients), y(rows * columns), dtable(held * columns);
        std::vector<double> expected, sums(static_cast<std::size_t>(held * columns));
        for (std::int64_t i = 0; i < rows * columns; ++i) {
          const std::int64_t at = numbers[static_cast<std::size_t>(i / columns)] - first;
          const bool here = 0 <= at && at < held;
          const auto element = static_cast<std::size_t>(at * columns + i % columns);
          expected.push_back(here ? static_cast<double>(values[element]) : 0);
          if (here) sums[element] += static_cast<double>(gradients[static_cast<std::size_t>(i)]);
        }
        const EmbeddingSpec forward{rows, columns, first, held};
        const EmbeddingGradientSpec backward{rows, columns, first, held};
        run(forward, of_rows, table, y);
        check_close(y, expected, 0);
        run(backward, of_rows, dy, dtable);
        check_close(dtable, sums, 1e-5, 1e-5);
        Array<> again(held * columns);
        run_kernel(backward, {of_rows.data(), dy.data(), again.data()}, 3);
        CHECK(again.values() == dtable.values());
      }
    }
  }
}

}  // namespace meshwork::test::embedding_test

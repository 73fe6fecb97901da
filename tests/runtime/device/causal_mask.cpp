#include "runtime/device/kernels/causal_mask.h"

#include "tests/runtime/device/support.h"

namespace meshwork::test::causal_mask_test {

TEST_CASE("a query keeps the keys up to its place, the last few of them, wherever blocks begin") {
  for (const std::int64_t keys : {1, 5, 37}) {
    for (const std::int64_t first_query : {0, 4}) {
      for (const std::int64_t first_key : {0, 3, 50}) {
        for (const std::int64_t window : {0, 1, 6}) {
          const CausalMaskSpec spec{.batches = 3,
                                    .queries = 7,
                                    .keys = keys,
                                    .first_query = first_query,
                                    .first_key = first_key,
                                    .window = window,
                                    .fill = -4};
          INFO(spec.text() << " from " << first_query << " and " << first_key << ", window "
                           << window);
          const std::vector<float> scores = random_values(3 * 7 * keys, 1);
          std::vector<double> expected;
          for (std::int64_t i = 0; i < 3 * 7 * keys; ++i) {
            const std::int64_t query = first_query + i / keys % 7, key = first_key + i % keys;
            const bool kept = key <= query && (window == 0 || query - key < window);
            expected.push_back(kept ? static_cast<double>(scores[static_cast<std::size_t>(i)])
                                    : -4);
          }
          Array<> x(scores), y(3 * 7 * keys);
          run(spec, x, y);
          check_close(y, expected, 0);
          run_kernel(spec, {x.data(), x.data()}, 3);
          check_close(x, expected, 0);
        }
      }
    }
  }
}

}  // namespace meshwork::test::causal_mask_test

#include "runtime/device/kernels/documents.h"

#include "runtime/device/kernels/step_scalars.h"
#include "tests/runtime/device/support.h"

namespace meshwork::test::documents_test {

namespace {

const std::vector<std::int32_t> numbers{1, 9, 2, 3, 9, 9, 4,  //
                                        9, 5, 6, 7, 8, 1, 9};
const std::vector<float> starts{0, 0, 2, 2, 2, 5, 6,  //
                                0, 1, 1, 1, 1, 1, 1};

}  // namespace

TEST_CASE("a document begins behind the number that ends the one before") {
  Array<std::int32_t> x(numbers);
  Array<> y(14);
  run(DocumentStartSpec{.rows = 2, .places = 7, .all = 7, .end = 9}, x, y);
  CHECK(y.values() == starts);
  run(DocumentStartSpec{.rows = 2, .places = 7, .all = 7, .end = 10}, x, y);
  CHECK(y.values() == std::vector<float>(14, 0));
  run(DocumentStartSpec{.rows = 0, .places = 7, .all = 7, .end = 9}, x, y);
}

TEST_CASE("a rank without places has no numbers either") {
  Array<std::int32_t> x(0);
  Array<> y(0);
  run(DocumentStartSpec{.rows = 2, .places = 0, .all = 0, .first = 4, .end = 9}, x, y);
}

// If each place looked back to where its document begins, this would be 5 * 10^11 comparisons.
TEST_CASE("the document of a million places takes as many steps") {
  constexpr std::int64_t places = 1'000'000;
  std::vector<std::int32_t> long_one(places, 1);
  long_one[places - 2] = 9;
  Array<std::int32_t> x(long_one);
  Array<> y(places);
  run(DocumentStartSpec{.rows = 1, .places = places, .all = places, .end = 9}, x, y);
  std::vector<float> expected(places, 0);
  expected.back() = places - 1;
  CHECK(y.values() == expected);
}

TEST_CASE("some places begin documents where these begin among all") {
  Array<std::int32_t> x(numbers);
  for (const std::int64_t position : {-1, 0, 1, 2}) {
    for (const std::int64_t first : {0, 1, 3}) {
      Array<StepScalars> scalars({StepScalars{.position = position}});
      Array<> y(4);
      const bool of_piece = position >= 0;
      const DocumentStartSpec some{
          .rows = 2, .places = 2, .all = 7, .first = first, .end = 9, .of_piece = of_piece};
      if (of_piece) {
        run(some, x, scalars, y);
      } else {
        run(some, x, y);
      }
      const auto at = static_cast<std::size_t>(first + (of_piece ? position : 0));
      CHECK(y.values() ==
            std::vector<float>{starts[at], starts[at + 1], starts[at + 7], starts[at + 8]});
    }
  }
}

}  // namespace meshwork::test::documents_test

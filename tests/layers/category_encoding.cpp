// CategoryEncoding: Keras's examples, and categories that are none.
#include "layers/category_encoding.h"

#include <memory>
#include <vector>

#include "layers/dense.h"
#include "runtime/data/array.h"
#include "tests/support/catch.h"
#include "tests/support/one_rank.h"

namespace meshwork::category_encoding_layer_test {

using namespace meshwork::test;

namespace {

template <class T = float>
std::vector<float> encoded(CategoryOutput mode, const Shape& sample, std::vector<T> numbers) {
  const auto x = Input(sample, "", element_type_of<T>());
  DeviceMesh mesh({{"data", Communicator::world().size()}}, Communicator::world());
  Model model(x, CategoryEncoding({.name = "c", .num_tokens = 4, .output_mode = mode})(x),
              spread_over(mesh, {}, "data"));
  Shape shape = sample;
  shape.insert(shape.begin(), 4);
  return model.predict(
      std::make_shared<ArraySource>(std::vector{Array("x", std::move(numbers), shape)}));
}

}  // namespace

TEST_CASE("categories are encoded as in Keras's examples") {
  const std::vector<float> one_hot{0, 0, 0, 1, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0};
  CHECK(encoded(CategoryOutput::one_hot, {}, {3, 2, 0, 1}) == one_hot);
  CHECK(encoded(CategoryOutput::one_hot, {1}, {3, 2, 0, 1}) == one_hot);
  CHECK(encoded(CategoryOutput::multi_hot, {1}, {3, 2, 0, 1}) == one_hot);
  const std::vector<float> pairs{0, 1, 0, 0, 1, 2, 3, 1};
  CHECK(encoded(CategoryOutput::multi_hot, {2}, pairs) ==
        std::vector<float>{1, 1, 0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 1, 0, 1});
  CHECK(encoded(CategoryOutput::count, {2}, pairs) ==
        std::vector<float>{1, 1, 0, 0, 2, 0, 0, 0, 0, 1, 1, 0, 0, 1, 0, 1});
}

TEST_CASE("each of several numbers has a vector of its own in a one-hot encoding") {
  const auto y = CategoryEncoding({.num_tokens = 4, .output_mode = CategoryOutput::one_hot});
  CHECK(y(Input({2})).shape() == Shape{-1, 2, 4});
  CHECK(y(Input({3, 1})).shape() == Shape{-1, 3, 4});
  CHECK(encoded(CategoryOutput::one_hot, {2}, {0, 1, 0, 0, 1, 2, 3, 1}) ==
        std::vector<float>{1, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0,
                           0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0, 0});
}

TEST_CASE("inputs of whole numbers are categories too") {
  const std::vector<std::int32_t> pairs{0, 1, 0, 0, 1, 2, 3, 1};
  const std::vector<float> same(pairs.begin(), pairs.end());
  for (const CategoryOutput mode :
       {CategoryOutput::one_hot, CategoryOutput::multi_hot, CategoryOutput::count}) {
    CHECK(encoded(mode, {2}, pairs) == encoded(mode, {2}, same));
  }
  CHECK_THROWS_WITH(encoded(CategoryOutput::count, {1}, std::vector<std::int32_t>(4, 4)),
                    Catch::Contains("category 4 is out of range"));
}

TEST_CASE("data that are no categories are an error on every rank") {
  for (const float wrong : {4.0F, -1.0F, 0.5F}) {
    CHECK_THROWS_WITH(encoded(CategoryOutput::one_hot, {1}, std::vector<float>(4, wrong)),
                      Catch::Contains("is out of range; with 4 categories they are whole numbers "
                                      "from 0 to 3"));
  }
  CHECK_THROWS_WITH(CategoryEncoding({.name = "c"}), Catch::Contains("num_tokens"));
  CHECK_THROWS_WITH(CategoryEncoding({.name = "c", .num_tokens = 4})(Input({})),
                    Catch::Contains("batch and categories"));
}

}  // namespace meshwork::category_encoding_layer_test

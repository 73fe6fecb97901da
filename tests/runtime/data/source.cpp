// Sources in memory, subsets and views.
#include "runtime/data/source.h"

#include "runtime/data/array.h"
#include "runtime/data/views.h"
#include "tests/runtime/data/support.h"
#include "tests/support/catch.h"

#include <atomic>

namespace meshwork::source_test {

using namespace meshwork::test;

namespace {

/// 10 images of (3, 4) in which element i of the whole is i mod 251, and labels 0..9.
std::shared_ptr<const Source> small_images() {
  return std::make_shared<ArraySource>(
      std::vector<Array>{Array("images", counted<std::uint8_t>(120), {10, 3, 4}),
                         Array("labels", counted<std::int32_t>(10), {10}, FieldRole::target)});
}

/// Counts how many rows are read from the source behind it.
class CountingSource final : public Source {
 public:
  explicit CountingSource(std::shared_ptr<const Source> source)
      : Source(source->rows(), source->fields(), "counting"), source_(std::move(source)) {}
  [[nodiscard]] std::string fingerprint() const override { return "counting"; }
  mutable std::atomic<int> rows_read = 0;

 private:
  void read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                 std::byte* destination) const override {
    rows_read += static_cast<int>(rows.size());
    source_->read(field, rows, block, destination);
  }
  std::shared_ptr<const Source> source_;
};

}  // namespace

TEST_CASE("arrays give every block of every row as picked by hand") {
  const std::vector<std::int64_t> values = counted<std::int64_t>(5 * 2 * 3 * 4);
  const Shape shape{2, 3, 4};
  const ArraySource source({Array("x", values, {5, 2, 3, 4})});
  REQUIRE(source.rows() == 5);
  const std::vector<std::int64_t> rows{4, 0, 0, 3};
  int blocks = 0;
  for (std::int64_t code = 0; code < 3 * 6 * 10; ++code) {
    // Every non-empty interval of each dimension, numbered.
    std::int64_t rest = code;
    Block block;
    for (const std::int64_t length : shape) {
      std::vector<Range> ranges;
      for (std::int64_t begin = 0; begin < length; ++begin) {
        for (std::int64_t end = begin + 1; end <= length; ++end) ranges.push_back({begin, end});
      }
      block.push_back(ranges[rest % static_cast<std::int64_t>(ranges.size())]);
      rest /= static_cast<std::int64_t>(ranges.size());
    }
    REQUIRE(read_block<std::int64_t>(source, 0, rows, block) == picked(values, shape, rows, block));
    ++blocks;
  }
  CHECK(blocks == 180);
}

TEST_CASE("an empty block and no rows read nothing") {
  const auto source = small_images();
  CHECK(read_block<std::uint8_t>(*source, 0, {1, 2}, {{1, 1}, {0, 4}}).empty());
  CHECK(read_block<std::uint8_t>(*source, 0, {}, {{0, 3}, {0, 4}}).empty());
}

TEST_CASE("arrays of no rows and of samples without elements are legal") {
  const ArraySource none({Array("x", std::vector<float>{}, {0, 7})});
  CHECK(none.rows() == 0);
  const ArraySource hollow({Array("x", std::vector<float>{}, {3, 0})});
  CHECK(hollow.rows() == 3);
  CHECK(read_all<float>(hollow, 0).empty());
}

TEST_CASE("a borrowed array is read where it lies") {
  std::vector<float> values{1, 2, 3, 4};
  const ArraySource source({Array("x", std::span<const float>(values), {2, 2})});
  values[3] = 9;
  CHECK(read_all<float>(source, 0) == std::vector<float>{1, 2, 3, 9});
}

TEST_CASE("fields are listed with shape, type and role") {
  const auto source = small_images();
  CHECK(source->feature_count() == 1);
  CHECK(source->target_count() == 1);
  CHECK(source->field(0) == Field{.name = "images", .shape = {3, 4}, .type = ElementType::uint8});
  CHECK(source->index_of("labels") == 1);
  CHECK_THROWS_WITH(source->index_of("label"), Catch::Contains("did you mean \"labels\"?"));
}

TEST_CASE("weights are no target, and samples without any can be given equal ones") {
  const auto source = small_images();
  CHECK_FALSE(source->weights_field());
  const auto weighted = with_equal_weights(source, {2});
  CHECK(weighted->target_count() == 1);
  CHECK(weighted->weights_field() == 2);
  CHECK(weighted->field(2) ==
        Field{.name = "sample_weights", .shape = {2}, .role = FieldRole::weight});
  CHECK(test::read_block<float>(*weighted, 2, {3, 0, 3}, {{0, 2}}) == std::vector<float>(6, 1.0f));
  CHECK(test::read_block<float>(*weighted, 2, {3}, {{1, 2}}) == std::vector<float>(1, 1.0f));
  CHECK(test::read_all<std::int32_t>(*weighted, 1) == test::read_all<std::int32_t>(*source, 1));
  CHECK(weighted->fingerprint() == source->fingerprint());
  weighted->prepare(2);
  CHECK(weighted->locate(2, 1) == "sample_weights: sample 1");
  CHECK(weighted->locate(1, 1) == source->locate(1, 1));
  const ArraySource only(
      {Array("x", counted<float>(2), {2}), Array("w", counted<float>(2), {2}, FieldRole::weight)});
  CHECK(only.target_count() == 0);
  CHECK(only.weights_field() == 1);
}

TEST_CASE("wrong arrays are errors that name them") {
  const auto x = Array("x", counted<float>(6), {3, 2});
  const auto y = Array("y", counted<float>(2), {2}, FieldRole::target);
  CHECK_THROWS_WITH(Array("x", counted<float>(6), {4, 2}),
                    "array \"x\": shape (4, 2) has 8 elements, 6 were given");
  CHECK_THROWS_WITH(Array("x", counted<float>(1), {}), Catch::Contains("no dimension"));
  CHECK_THROWS_WITH(ArraySource({x, y}),
                    "array \"x\" holds 3 samples and array \"y\" holds 2; expected equal numbers");
  CHECK_THROWS_WITH(ArraySource({x, x}), Catch::Contains("two fields are called \"x\""));
  CHECK_THROWS_WITH(ArraySource({y}), Catch::Contains("has no features"));
  CHECK_THROWS_WITH(ArraySource({y, Array("x", counted<float>(2), {2})}),
                    Catch::Contains("features come first"));
  const auto w = Array("w", counted<float>(2), {2}, FieldRole::weight);
  const auto two = Array("x", counted<float>(2), {2});
  CHECK_THROWS_WITH(ArraySource({two, w, y}),
                    Catch::Contains("target \"y\" stands behind weights \"w\""));
  CHECK_THROWS_WITH(ArraySource({two, w, Array("v", counted<float>(2), {2}, FieldRole::weight)}),
                    Catch::Contains("\"w\" and \"v\" are both weights; a sample has one"));
  CHECK_THROWS_WITH(ArraySource({}), Catch::Contains("no arrays"));
}

TEST_CASE("reading outside the data is an error that says where") {
  const auto source = small_images();
  std::vector<std::uint8_t> buffer(100);
  const std::vector<std::int64_t> rows{0, 10};
  CHECK_THROWS_WITH(source->read(0, rows, {{0, 3}, {0, 4}}, buffer.data()),
                    "field \"images\": sample 10 is wanted, there are 10");
  const std::vector<std::int64_t> row{0};
  CHECK_THROWS_WITH(source->read(0, row, {{0, 3}, {2, 5}}, buffer.data()),
                    Catch::Contains("[0, 3) x [2, 5) is not inside") && Catch::Contains("(3, 4)"));
  CHECK_THROWS_WITH(source->read(0, row, {{0, 3}}, buffer.data()), Catch::Contains("not inside"));
  CHECK_THROWS_WITH(source->read(2, row, {}, buffer.data()), Catch::Contains("2 fields"));
}

TEST_CASE("the fingerprint of arrays differs when an element does") {
  std::vector<float> values(13);
  const std::string before = ArraySource({Array("x", values, {13})}).fingerprint();
  CHECK(ArraySource({Array("x", values, {13})}).fingerprint() == before);
  values[12] = 1;
  CHECK(ArraySource({Array("x", values, {13})}).fingerprint() != before);
}

TEST_CASE("a subset is the rows it names") {
  const auto source = small_images();
  const Subset subset(source, 4, 9);
  CHECK(subset.rows() == 5);
  CHECK(read_all<std::int32_t>(subset, 1) == std::vector<std::int32_t>{4, 5, 6, 7, 8});
  CHECK(subset.locate(1, 2) == "array \"labels\": sample 6");
  CHECK(subset.fingerprint() == source->fingerprint() + "; samples [4, 9)");
  const Subset inner(std::make_shared<Subset>(source, 4, 9), 1, 3);
  CHECK(read_all<std::int32_t>(inner, 1) == std::vector<std::int32_t>{5, 6});
  CHECK_THROWS_WITH(Subset(source, 4, 11), Catch::Contains("[4, 11)"));
  CHECK_THROWS_WITH(Subset(source, 5, 4), Catch::Contains("[5, 4)"));
}

TEST_CASE("a long list of rows goes through a subset whole") {
  const auto source = std::make_shared<ArraySource>(
      std::vector<Array>{Array("x", counted<std::int32_t>(2000), {1000, 2})});
  const Subset subset(source, 3, 1000);
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < 700; ++i) rows.push_back(996 - i);
  std::vector<std::int64_t> shifted;
  for (const std::int64_t row : rows) shifted.push_back(row + 3);
  CHECK(read_block<std::int32_t>(subset, 0, rows, {{1, 2}}) ==
        read_block<std::int32_t>(*source, 0, shifted, {{1, 2}}));
}

TEST_CASE("validation takes the last part, cut at floor(n * (1 - split)) in double") {
  const auto source = small_images();
  const ValidationSplit parts = split_for_validation(source, 0.25);
  // 10 * 0.75 = 7.5
  CHECK(read_all<std::int32_t>(*parts.training, 1) ==
        std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6});
  CHECK(read_all<std::int32_t>(*parts.validation, 1) == std::vector<std::int32_t>{7, 8, 9});
  // 1 - 0.9 is a little below 0.1 in double, so the cut is at 0: as in Keras, an empty side.
  CHECK_THROWS_WITH(split_for_validation(source, 0.9),
                    "validation_split 0.9 of 10 samples leaves none for training");
  CHECK(split_for_validation(source, 0.05).training->rows() == 9);
  CHECK_THROWS_WITH(split_for_validation(std::make_shared<Subset>(source, 0, 1), 0.5),
                    Catch::Contains("none for training"));
  CHECK_THROWS_WITH(split_for_validation(source, 0), Catch::Contains("between 0 and 1"));
  CHECK_THROWS_WITH(split_for_validation(source, 1.5), Catch::Contains("between 0 and 1"));
}

TEST_CASE("dimensions of length 1 can be added and removed") {
  const auto source = small_images();
  const auto shaped = with_shape(source, 0, {1, 3, 4, 1, 1});
  CHECK(shaped->field(0).shape == Shape{1, 3, 4, 1, 1});
  CHECK(read_all<std::uint8_t>(*shaped, 0) == read_all<std::uint8_t>(*source, 0));
  CHECK(read_block<std::uint8_t>(*shaped, 0, {7, 2}, {{0, 1}, {1, 3}, {2, 3}, {0, 1}, {0, 1}}) ==
        read_block<std::uint8_t>(*source, 0, {7, 2}, {{1, 3}, {2, 3}}));
  CHECK(
      read_block<std::uint8_t>(*shaped, 0, {7}, {{0, 1}, {0, 3}, {0, 4}, {1, 1}, {0, 1}}).empty());
  const auto back = with_shape(shaped, 0, {3, 4});
  CHECK(read_block<std::uint8_t>(*back, 0, {1}, {{0, 3}, {1, 2}}) ==
        read_block<std::uint8_t>(*source, 0, {1}, {{0, 3}, {1, 2}}));
  CHECK(read_all<std::int32_t>(*shaped, 1) == read_all<std::int32_t>(*source, 1));
  CHECK(with_shape(source, 0, {3, 4}) == source);
  CHECK_THROWS_WITH(with_shape(source, 0, {12}),
                    Catch::Contains("(3, 4)") && Catch::Contains("(12)"));
  CHECK_THROWS_WITH(with_shape(source, 0, {4, 3}), Catch::Contains("images"));
}

TEST_CASE("a cache reads each row of a block once and gives the same") {
  const auto inner = std::make_shared<CountingSource>(small_images());
  const auto source = cached(inner);
  const Block left{{0, 3}, {0, 2}}, right{{0, 3}, {2, 4}};
  const auto once = read_block<std::uint8_t>(*source, 0, {3, 1, 3}, left);
  CHECK(once == read_block<std::uint8_t>(*small_images(), 0, {3, 1, 3}, left));
  CHECK(inner->rows_read == 3);
  const auto again = read_block<std::uint8_t>(*source, 0, {1, 2, 3}, left);
  CHECK(again == read_block<std::uint8_t>(*small_images(), 0, {1, 2, 3}, left));
  CHECK(inner->rows_read == 4);
  CHECK(read_block<std::uint8_t>(*source, 0, {1}, right) ==
        read_block<std::uint8_t>(*small_images(), 0, {1}, right));
  CHECK(inner->rows_read == 5);
}

}  // namespace meshwork::source_test

// Zero padding, permuting, and products over images, over every split.
#include <algorithm>
#include <iterator>
#include <span>

#include "collectives/error.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/graph/operations/box_rows.h"
#include "runtime/graph/operations/contraction.h"
#include "runtime/graph/operations/permute.h"
#include "runtime/graph/operations/zero_padding.h"
#include "runtime/mesh/block_copy.h"
#include "tests/support/image_reference.h"
#include "tests/support/strategy_validator.h"

namespace meshwork::images_test {

using namespace meshwork::test;

TEST_CASE("zero padding surrounds an image with zeros") {
  const ZeroPaddingOperation operation({{1, 0}, {2, 1}});
  const OperationCase what{
      .inputs = {Tensor({1, 2, 2, 1}, {1, 2, 3, 4})},
      .output_gradient = Tensor({1, 3, 5, 1}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})};
  const OperationResult found = run_whole(operation, what);
  CHECK(found.output.values == std::vector<double>{0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 3, 4, 0});
  CHECK(found.gradients[0]->values == std::vector<double>{8, 9, 13, 14});
}

TEST_CASE("zero padding agrees with differences and with the truth, also wider than a block") {
  for (const auto& borders : std::vector<std::vector<Border>>{
           {{1, 1}, {1, 1}}, {{0, 3}, {2, 0}}, {{7, 0}, {0, 9}}, {{0, 0}, {0, 0}}}) {
    const ZeroPaddingOperation operation(borders);
    check_gradients(operation, case_of(operation, {2, 5, 3, 2}));
    check_strategies(operation, case_of(operation, {2, 7, 5, 3}), 0);
  }
  const ZeroPaddingOperation sequences({{2, 1}});
  check_strategies(sequences, case_of(sequences, {2, 7, 3}), 0);
  CHECK_THROWS_WITH(sequences.output_shape(std::vector<Shape>{{-1, 7}}),
                    Catch::Contains("expected an input of 3 dimensions"));
}

TEST_CASE("cropping is padding by less than nothing: the border goes, and its gradient is 0") {
  const ZeroPaddingOperation operation({{-1, 0}, {0, -2}});
  CHECK(operation.kind() == "cropping");
  const OperationCase what{.inputs = {Tensor({1, 2, 3, 1}, {1, 2, 3, 4, 5, 6})},
                           .output_gradient = Tensor({1, 1, 1, 1}, {7})};
  const OperationResult found = run_whole(operation, what);
  CHECK(found.output.values == std::vector<double>{4});
  CHECK(found.gradients[0]->values == std::vector<double>{0, 0, 0, 7, 0, 0});
  for (const auto& borders : std::vector<std::vector<Border>>{
           {{-1, -1}, {-1, -1}}, {{0, -3}, {-2, 0}}, {{-4, 3}, {1, -2}}}) {
    const ZeroPaddingOperation cut(borders);
    check_gradients(cut, case_of(cut, {2, 5, 3, 2}));
    check_strategies(cut, case_of(cut, {2, 7, 5, 3}), 0);
  }
  CHECK_THROWS_WITH(operation.output_shape(std::vector<Shape>{{-1, 7, 2, 3}}),
                    Catch::Contains("cannot cut 0 and 2 elements off dimension 2"));
}

TEST_CASE("permuting puts every element in its place, and gradients back") {
  const PermuteOperation operation({0, 3, 1, 2});
  const OperationCase what = case_of(operation, {2, 3, 5, 4});
  Tensor expected({2, 4, 3, 5});
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t t = 0; t < 3; ++t) {
      for (std::int64_t u = 0; u < 5; ++u) {
        for (std::int64_t v = 0; v < 4; ++v) {
          expected.values[place(expected.shape, b, v, t, u)] =
              what.inputs[0].values[place(what.inputs[0].shape, b, t, u, v)];
        }
      }
    }
  }
  CHECK(difference(run_whole(operation, what).output, expected, 0) == "");
  check_gradients(operation, case_of(operation, {2, 3, 2, 2}));
  check_strategies(operation, what, 0);
  check_strategies(PermuteOperation({0, 2, 1}), case_of(PermuteOperation({0, 2, 1}), {3, 5, 7}), 0);
}

TEST_CASE("the part of a box that lies in a range is a few boxes in order") {
  // All boxes of an array of 3 x 2 x 4 against all ranges of its 24 elements.
  const Shape shape{3, 2, 4};
  for (const Block& box : {Block{{0, 3}, {0, 2}, {0, 4}}, Block{{1, 3}, {0, 2}, {0, 4}},
                           Block{{0, 3}, {1, 2}, {1, 4}}, Block{{2, 3}, {0, 1}, {3, 4}},
                           Block{{0, 3}, {1, 1}, {0, 4}}, Block{{0, 2}, {0, 2}, {2, 3}}}) {
    std::vector<std::int64_t> all;
    for_each_in_block(shape, box, [&](std::int64_t index) { all.push_back(index); });
    for (std::int64_t begin = 0; begin <= 24; ++begin) {
      for (std::int64_t end = begin; end <= 24; ++end) {
        std::vector<std::int64_t> expected;
        std::copy_if(all.begin(), all.end(), std::back_inserter(expected),
                     [&](std::int64_t index) { return index >= begin && index < end; });
        std::vector<std::int64_t> found;
        for (const Block& part : boxes_within(box, shape, {begin, end})) {
          CHECK(element_count(shape_of(part)) > 0);
          CHECK(offset_of(part, whole(shape)) >= begin);
          for_each_in_block(shape, part, [&](std::int64_t index) { found.push_back(index); });
        }
        CHECK(found == expected);
      }
    }
  }
  CHECK(strides_of({3, 2, 4}) == std::vector<std::int64_t>{8, 4, 1});
}

TEST_CASE("a product over an image is that over the flattened image, on any split") {
  for (const auto& [image, equation] :
       {std::pair<Shape, const char*>{{3, 5, 3, 2}, "bhwc,(hwc)o->bo"},
        {{2, 7, 3}, "bwc,(wc)o->bo"},
        {{2, 2, 2, 5}, "bthw,(hw)o->bto"}}) {
    const std::size_t leading = image.size() == 4 && equation[1] == 't' ? 2 : 1;
    const std::int64_t features = element_count(std::span(image).subspan(leading));
    Shape output(image.begin(), image.begin() + static_cast<std::ptrdiff_t>(leading));
    output.push_back(3);
    for (const Activation activation : {Activation::linear, Activation::relu}) {
      const bool bias = activation == Activation::relu;
      const ContractionOperation operation(equation, {bias, activation});
      OperationCase what{.inputs = {random_tensor(image, 1), random_tensor({features, 3}, 2)},
                         .output_gradient = random_tensor(output, 3)};
      if (bias) {
        what.inputs.push_back(random_tensor({3}, 4));
      }
      OperationCase flat = what;
      flat.inputs[0].shape = output;
      flat.inputs[0].shape.back() = features;
      const OperationResult found = run_whole(operation, what);
      const OperationResult expected =
          run_whole(ContractionOperation(dense_equation(leading + 1), {bias, activation}), flat);
      CHECK(found.output.values == expected.output.values);
      CHECK(found.gradients[0]->values == expected.gradients[0]->values);
      CHECK(found.gradients[1]->values == expected.gradients[1]->values);
      check_strategies(operation, what);
    }
  }
}

TEST_CASE("a product over an image splits every dimension of the image, and the kernel apart") {
  const ContractionOperation operation("bhwc,(hwc)o->bo");
  const std::vector<Shape> shapes{{4, 7, 5, 2}, {70, 3}};
  const Rule rule = operation.rule(shapes);
  CHECK(rule.inputs == std::vector<std::string>{"bhwc", "io"});
  CHECK(rule.output == "bo");
  CHECK(rule.whole.empty());
  CHECK(ContractionOperation("bhwc,(hwc)o->bo", {.bias = true})
            .rule(std::vector<Shape>{shapes[0], shapes[1], {3}})
            .whole == "hwci");
  CHECK_THROWS_WITH(operation.output_shape(std::vector<Shape>{{-1, 7, 5, 2}, {69, 3}}),
                    Catch::Contains("of shape (batch, 7, 5, 2) cannot have one of shape (69, 3)"));
}

TEST_CASE("a dense product that takes an image has one letter for each of its dimensions") {
  CHECK(dense_equation(2) == "bi,io->bo");
  const auto over_image = ContractionOperation(dense_equation(2)).over_unmerged(3);
  REQUIRE(over_image);
  CHECK(over_image->equation() == "btuv,(tuv)o->bo");
  CHECK_FALSE(over_image->over_unmerged(2));
  CHECK_FALSE(ContractionOperation("bk,ko->bok").over_unmerged(2));  // k is not summed
}

}  // namespace meshwork::images_test

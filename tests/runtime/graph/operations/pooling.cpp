// Pooling of windows and of whole images, over every split that their rules allow.
#include "runtime/graph/operations/pooling.h"

#include "collectives/error.h"
#include "runtime/graph/operations/global_pooling.h"
#include "tests/support/image_reference.h"
#include "tests/support/strategy_validator.h"

namespace meshwork::pooling_test {

using namespace meshwork::test;

namespace {

SlidingWindow sliding(const Along& along) {
  return {along.window, along.stride, along.dilation, along.same ? Padding::same : Padding::valid};
}

struct Pooled {
  std::string name;
  Shape x;
  Along down, across;
};

const std::vector<Pooled>& cases() {
  static const std::vector<Pooled> all{
      {"two by two", {2, 7, 5, 3}, {2, 2}, {2, 2}},
      {"same, with a last window that is cut", {2, 7, 5, 3}, {2, 2, 1, true}, {3, 2, 1, true}},
      {"windows that overlap", {2, 7, 5, 2}, {3, 1, 1, true}, {3, 2, 1, true}},
      {"a pool wider than a block", {2, 7, 5, 2}, {6, 1, 1, true}, {5, 1, 1, false}},
      {"a pool wider than the image", {1, 3, 2, 2}, {7, 2, 1, true}, {4, 3, 1, true}},
      {"strides that leave inputs out", {2, 8, 7, 2}, {2, 3}, {1, 4}},
  };
  return all;
}

OperationCase case_for(const Pooled& subject) {
  const Shape& x = subject.x;
  return {.inputs = {random_tensor(x, 1)},
          .output_gradient = random_tensor(
              {x[0], subject.down.outputs(x[1]), subject.across.outputs(x[2]), x[3]}, 2)};
}

// A tensor whose elements all differ by more than a step of the differences.
Tensor distinct(const Shape& shape) {
  Tensor tensor(shape);
  const std::int64_t count = element_count(shape);
  for (std::int64_t i = 0; i < count; ++i) {
    tensor.values[i] = static_cast<double>(i * 37 % count) * 0.0625;
  }
  return tensor;
}

// x in so many bins of rows and columns: of n elements in m bins, bin i is
// [floor(i n / m), ceil((i + 1) n / m)).
Tensor binned(const Tensor& x, std::int64_t rows, std::int64_t columns, bool maximum) {
  Tensor y({x.shape[0], rows, columns, x.shape[3]});
  std::size_t at = 0;
  for (std::int64_t n = 0; n < x.shape[0]; ++n) {
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        for (std::int64_t c = 0; c < x.shape[3]; ++c, ++at) {
          double sum = 0, count = 0, largest = -1e9;
          for (std::int64_t h = 0; h < x.shape[1]; ++h) {
            for (std::int64_t w = 0; w < x.shape[2]; ++w) {
              // h is in bin i if h + 1 > i n / m and h < (i + 1) n / m.
              if ((h + 1) * rows <= i * x.shape[1] || h * rows >= (i + 1) * x.shape[1]) continue;
              if ((w + 1) * columns <= j * x.shape[2] || w * columns >= (j + 1) * x.shape[2]) {
                continue;
              }
              const double value = x.values[place(x.shape, n, h, w, c)];
              sum += value;
              count += 1;
              largest = std::max(largest, value);
            }
          }
          y.values[at] = maximum ? largest : sum / count;
        }
      }
    }
  }
  return y;
}

PoolingOperation bins(Pooling pooling, const std::vector<std::int64_t>& counts) {
  std::vector<SlidingWindow> windows;
  for (const std::int64_t count : counts) windows.push_back({.bins = count});
  return {pooling, windows};
}

}  // namespace

TEST_CASE("bins are those of a plain loop, on any split, and agree with differences") {
  const Tensor x = distinct({2, 7, 5, 2});
  for (const auto& [rows, columns] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{3, 2}, {5, 4}, {7, 1}, {1, 5}, {9, 8}}) {
    INFO(rows << " x " << columns << " bins");
    const OperationCase what{.inputs = {x},
                             .output_gradient = random_tensor({2, rows, columns, 2}, 2)};
    for (const Pooling pooling : {Pooling::maximum, Pooling::average}) {
      const PoolingOperation operation = bins(pooling, {rows, columns});
      CHECK(difference(run_whole(operation, what).output,
                       binned(x, rows, columns, pooling == Pooling::maximum), 1e-6) == "");
      check_gradients(operation, what);
      check_strategies(operation, what);
    }
  }
}

// AdaptiveMaxPooling2D((3, 2)) and AdaptiveAveragePooling2D((3, 2)) of Keras 3.15, and dx by
// jax.vjp.
TEST_CASE("bins are those of Keras") {
  Tensor x({1, 7, 5, 2}), dy({1, 3, 2, 2});
  for (std::size_t i = 0; i < 70; ++i) x.values[i] = static_cast<double>(i * 37 % 70) / 8;
  for (std::size_t i = 0; i < 12; ++i) dy.values[i] = static_cast<double>(i + 1) / 4;
  const OperationCase what{.inputs = {x}, .output_gradient = dy};
  const OperationResult maxima = run_whole(bins(Pooling::maximum, {3, 2}), what);
  CHECK(maxima.output.values ==
        std::vector<double>{6, 8.125, 7, 8.625, 8.5, 6.875, 8.5, 7.875, 7.25, 8.375, 8.25, 7.875});
  Tensor dx(x.shape);
  const std::vector<std::pair<std::size_t, double>> taken{
      {15, 0.5}, {17, 1}, {24, 0.25}, {28, 0.75}, {34, 3},
      {45, 1.5}, {49, 5}, {51, 2.5},  {64, 2.25}, {68, 2.75}};
  for (const auto& [at, value] : taken) dx.values[at] = value;
  CHECK(maxima.gradients[0]->values == dx.values);
  const OperationResult means = run_whole(bins(Pooling::average, {3, 2}), what);
  CHECK(difference(means.output,
                   Tensor({1, 3, 2, 2}, {3, 4.7083335, 4, 4.736111, 5.0833335, 3.875, 4.138889,
                                         4.875, 4.25, 4.013889, 5.25, 4.0416665}),
                   1e-6) == "");
  CHECK(means.gradients[0]->values[24] == Approx(0.44444448));  // row 2, column 2, in four bins
  CHECK(means.gradients[0]->values[45] == Approx(1.0));
}

TEST_CASE("bins of sequences and of volumes are alike") {
  for (const Pooling pooling : {Pooling::maximum, Pooling::average}) {
    OperationCase what = case_of(bins(pooling, {4}), {2, 11, 3});
    what.inputs[0] = distinct({2, 11, 3});
    check_gradients(bins(pooling, {4}), what);
    check_strategies(bins(pooling, {4}), what);
    const Shape volume{2, 5, 4, 3, 2};
    what = case_of(bins(pooling, {3, 2, 2}), volume);
    what.inputs[0] = distinct(volume);
    check_gradients(bins(pooling, {3, 2, 2}), what);
    check_strategies(bins(pooling, {3, 2, 2}), what);
  }
}

TEST_CASE("pooling is the maximum or the mean of what is no padding") {
  for (const Pooled& subject : cases()) {
    INFO(subject.name);
    const OperationCase what = case_for(subject);
    for (const Pooling pooling : {Pooling::maximum, Pooling::average}) {
      const PoolingOperation operation(pooling, {sliding(subject.down), sliding(subject.across)});
      CHECK(difference(
                run_whole(operation, what).output,
                pooled(what.inputs[0], subject.down, subject.across, pooling == Pooling::maximum),
                1e-6) == "");
    }
  }
}

TEST_CASE("pooling's gradients agree with differences") {
  for (const Pooled& subject : cases()) {
    INFO(subject.name);
    OperationCase what = case_for(subject);
    what.inputs[0] = distinct(subject.x);
    for (const Pooling pooling : {Pooling::maximum, Pooling::average}) {
      check_gradients(PoolingOperation(pooling, {sliding(subject.down), sliding(subject.across)}),
                      what);
    }
  }
}

TEST_CASE("pooling agrees with the truth over every dimension that an axis can split") {
  for (const Pooled& subject : cases()) {
    INFO(subject.name);
    for (const Pooling pooling : {Pooling::maximum, Pooling::average}) {
      check_strategies(PoolingOperation(pooling, {sliding(subject.down), sliding(subject.across)}),
                       case_for(subject));
    }
  }
}

TEST_CASE("of equal maxima the first takes the gradient, on any split") {
  const PoolingOperation operation(Pooling::maximum,
                                   {{2, 2, 1, Padding::same}, {2, 2, 1, Padding::same}});
  const OperationCase what{.inputs = {Tensor({1, 3, 3, 1}, {5, 5, 1, 5, 5, 1, 2, 2, -7})},
                           .output_gradient = Tensor({1, 2, 2, 1}, {1, 2, 3, 4})};
  const OperationResult found = run_whole(operation, what);
  CHECK(found.output.values == std::vector<double>{5, 1, 2, -7});
  CHECK(found.gradients[0]->values == std::vector<double>{1, 0, 2, 0, 0, 0, 3, 0, 4});
  check_strategies(operation, what, 0);
}

TEST_CASE("pools of more places than a byte counts") {
  const PoolingOperation operation(Pooling::maximum,
                                   {{17, 17, 1, Padding::same}, {17, 1, 1, Padding::same}});
  const OperationCase what{.inputs = {random_tensor({1, 20, 19, 1}, 1)},
                           .output_gradient = random_tensor({1, 2, 19, 1}, 2)};
  CHECK(difference(run_whole(operation, what).output,
                   pooled(what.inputs[0], {17, 17, 1, true}, {17, 1, 1, true}, true), 1e-6) == "");
  check_strategies(operation, what);
}

TEST_CASE("sequences are pooled alike") {
  for (const Pooling pooling : {Pooling::maximum, Pooling::average}) {
    const PoolingOperation operation(pooling, {{3, 2, 1, Padding::same}});
    const OperationCase what{.inputs = {random_tensor({2, 11, 3}, 1)},
                             .output_gradient = random_tensor({2, 6, 3}, 2)};
    Tensor image = what.inputs[0];
    image.shape = {2, 1, 11, 3};
    Tensor expected = pooled(image, {}, {3, 2, 1, true}, pooling == Pooling::maximum);
    expected.shape = {2, 6, 3};
    CHECK(difference(run_whole(operation, what).output, expected, 1e-6) == "");
    check_strategies(operation, what);
  }
}

TEST_CASE("an image that no pool fits is an error") {
  const PoolingOperation operation(Pooling::maximum,
                                   {{2, 2, 1, Padding::valid}, {2, 2, 1, Padding::valid}});
  CHECK_THROWS_WITH(operation.output_shape(std::vector<Shape>{{-1, 1, 4, 2}}),
                    Catch::Contains("no place for a pool of 2 elements in dimension 1"));
  CHECK_THROWS_WITH(operation.output_shape(std::vector<Shape>{{-1, 4}}),
                    Catch::Contains("expected images of shape (batch, rows, columns, channels)"));
}

TEST_CASE("global pooling is the mean or the maximum of all places of a channel") {
  for (const Shape& shape : {Shape{2, 7, 5, 3}, Shape{3, 5, 2}, Shape{2, 2, 1, 4}}) {
    const Tensor x = random_tensor(shape, 1);
    const std::int64_t channels = shape.back();
    const std::int64_t places = element_count(shape) / shape[0] / channels;
    Tensor mean({shape[0], channels});
    Tensor maximum({shape[0], channels});
    for (std::int64_t n = 0; n < shape[0]; ++n) {
      for (std::int64_t c = 0; c < channels; ++c) {
        double& largest = maximum.values[n * channels + c];
        largest = -1e9;
        for (std::int64_t p = 0; p < places; ++p) {
          const double value = x.values[(n * places + p) * channels + c];
          mean.values[n * channels + c] += value / static_cast<double>(places);
          largest = std::max(largest, value);
        }
      }
    }
    const OperationCase what{.inputs = {x}, .output_gradient = random_tensor(mean.shape, 2)};
    CHECK(difference(run_whole(GlobalAverageOperation(), what).output, mean, 1e-6) == "");
    CHECK(difference(run_whole(GlobalMaximumOperation(), what).output, maximum, 0) == "");
    check_gradients(GlobalAverageOperation(), what);
    check_strategies(GlobalAverageOperation(), what);
    check_strategies(GlobalMaximumOperation(), what);
    OperationCase apart = what;
    apart.inputs[0] = distinct(shape);
    check_gradients(GlobalMaximumOperation(), apart);
  }
}

TEST_CASE("maxima on several ranks share a gradient equally") {
  const OperationCase what{.inputs = {Tensor({1, 2, 3, 1}, {3, 1, 3, 0, 3, -1})},
                           .output_gradient = Tensor({1, 1}, {6})};
  const OperationResult found = run_whole(GlobalMaximumOperation(), what);
  CHECK(found.output.values == std::vector<double>{3});
  CHECK(found.gradients[0]->values == std::vector<double>{2, 0, 2, 0, 2, 0});
  check_strategies(GlobalMaximumOperation(), what, 0);
}

TEST_CASE("the mean over an image adds up by rule, its maximum by a reduction of its own") {
  const std::vector<Shape> image{{2, 7, 5, 3}};
  const Rule mean = GlobalAverageOperation().rule(image);
  CHECK(mean.own.empty());
  CHECK(mean.output == std::string{mean.inputs[0].front(), mean.inputs[0].back()});
  const Rule maximum = GlobalMaximumOperation().rule(image);
  CHECK(maximum.own == maximum.inputs[0].substr(1, 2));
  CHECK(GlobalMaximumOperation().own_reductions(maximum).size() == 2);
  CHECK_THROWS_WITH(GlobalAverageOperation().output_shape(std::vector<Shape>{{-1, 4}}),
                    Catch::Contains("dimensions between batch and channels"));
}

}  // namespace meshwork::pooling_test

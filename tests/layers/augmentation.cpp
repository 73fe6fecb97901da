// Layers that cut and move images: numbers against plain loops, and what is drawn.
//
// Keras's layers transform coordinates alike: keras/src/layers/preprocessing/image_preprocessing
// and keras/src/backend/numpy/image.py, affine_transform. With `map_coordinates` of SciPy its pads
// are those that `filled` counts here.
#include "layers/augmentation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "collectives/error.h"
#include "layers/borders.h"
#include "layers/identity.h"
#include "runtime/device/philox.h"
#include "tests/support/graph_runner.h"

namespace meshwork::augmentation_test {

using namespace meshwork::test;

namespace {

struct Run {
  std::vector<double> y, dx;
};

/// On `x`, with the gradient `dy`; without `dy`, outside training.
Run run_layer(const SharedLayer& layer, const Tensor& x, const Tensor& dy, bool training = true) {
  const auto input = Input(Shape(x.shape.begin() + 1, x.shape.end()));
  const Graph graph = make_graph({input}, {layer(input)});
  const GraphValues found =
      run_graph(graph, {.inputs = {x}, .output_gradients = {dy}, .training = training});
  return {found.values.at(graph.outputs[0]).values, found.gradients.at(graph.inputs[0]).values};
}

constexpr std::int64_t batch = 6, rows = 7, columns = 5, channels = 2;
const Shape images{batch, rows, columns, channels};

/// The index that stands for index i of n, one step at a time; -1: the fill value.
std::int64_t filled(FillMode fill, std::int64_t i, std::int64_t n) {
  while (i < 0 || i >= n) {
    if (fill == FillMode::constant) return -1;
    if (fill == FillMode::nearest) i += i < 0 ? 1 : -1;
    if (fill == FillMode::wrap) i += i < 0 ? n : -n;
    if (fill == FillMode::reflect) i = i < 0 ? -1 - i : 2 * n - 1 - i;
  }
  return i;
}

struct Filling {
  FillMode mode = FillMode::reflect;
  Interpolation interpolation = Interpolation::bilinear;
  double value = 0;
};

/// Where pixel (row, column) of sample `s` is in x, with the numbers u that are drawn for it.
using Places =
    std::function<std::array<double, 2>(const std::array<double, 2>& u, double row, double column)>;

/// Checks a layer's numbers and gradient against loops over all pixels of x.
void check_motion(const SharedLayer& layer, const Filling& filling, const Shape& shape,
                  const Places& places) {
  const Tensor x = random_tensor(images, 1);
  const Tensor dy = random_tensor(shape, 2);
  const auto input = Input({rows, columns, channels});
  const Graph graph = make_graph({input}, {layer(input)});
  const GraphCase request{.inputs = {x}, .output_gradients = {dy}};
  const GraphValues found = run_graph(graph, request);
  const std::uint64_t key = random_key(request.seed, graph.operations[0].path);
  const std::vector<double>& y = found.values.at(graph.outputs[0]).values;
  const std::vector<double>& dx = found.gradients.at(graph.inputs[0]).values;
  std::vector<double> expected_dx(dx.size());
  std::size_t i = 0;
  for (std::int64_t s = 0; s < batch; ++s) {
    std::array<double, 2> u{};
    for (std::size_t d = 0; d < 2; ++d) {
      u[d] = (philox_word(key, static_cast<std::uint64_t>(2 * s) + d,
                          static_cast<std::uint64_t>(OperationCase().step)) >>
              8) *
             0x1p-24;
    }
    for (std::int64_t r = 0; r < shape[1]; ++r) {
      for (std::int64_t c = 0; c < shape[2]; ++c) {
        const auto place = places(u, static_cast<double>(r), static_cast<double>(c));
        for (std::int64_t k = 0; k < channels; ++k, ++i) {
          double sum = 0;
          // Pixels around a place count by how near they are: a tent, or a box.
          for (std::int64_t a = -40; a < 40; ++a) {
            for (std::int64_t b = -40; b < 40; ++b) {
              const double away_row = static_cast<double>(a) - place[0];
              const double away_column = static_cast<double>(b) - place[1];
              const double weight = filling.interpolation == Interpolation::bilinear
                                        ? std::max(0.0, 1 - std::abs(away_row)) *
                                              std::max(0.0, 1 - std::abs(away_column))
                                        : (away_row > -0.5 && away_row <= 0.5 &&
                                                   away_column > -0.5 && away_column <= 0.5
                                               ? 1.0
                                               : 0.0);
              if (weight == 0) continue;
              const std::int64_t row = filled(filling.mode, a, rows);
              const std::int64_t column = filled(filling.mode, b, columns);
              if (row < 0 || column < 0) {
                sum += weight * filling.value;
                continue;
              }
              const auto at =
                  static_cast<std::size_t>(((s * rows + row) * columns + column) * channels + k);
              sum += weight * x.values[at];
              expected_dx[at] += weight * dy.values[i];
            }
          }
          REQUIRE(y[i] == Approx(sum).margin(1e-5));
        }
      }
    }
  }
  for (std::size_t j = 0; j < dx.size(); ++j) {
    REQUIRE(dx[j] == Approx(expected_dx[j]).margin(1e-5));
  }
}

double between_numbers(double low, double high, double u) {
  return low + (high - low) * u;
}

}  // namespace

TEST_CASE("each second image is mirrored, as its drawn number says") {
  for (const FlipMode mode :
       {FlipMode::horizontal, FlipMode::vertical, FlipMode::horizontal_and_vertical}) {
    check_motion(RandomFlip({.mode = mode}), {}, images,
                 [&](const std::array<double, 2>& u, double row, double column) {
                   const bool flips = u[0] < 0.5;
                   const double last_row = double{rows - 1}, last_column = double{columns - 1};
                   return std::array{
                       flips && mode != FlipMode::horizontal ? last_row - row : row,
                       flips && mode != FlipMode::vertical ? last_column - column : column};
                 });
  }
}

TEST_CASE("translated, rotated and scaled images are those of plain loops, with any filling") {
  for (const FillMode mode :
       {FillMode::reflect, FillMode::constant, FillMode::nearest, FillMode::wrap}) {
    for (const Interpolation interpolation : {Interpolation::bilinear, Interpolation::nearest}) {
      const Filling filling{mode, interpolation, 0.75};
      check_motion(
          RandomTranslation({.height_factor = {-0.3f, 0.9f},
                             .width_factor = 0.8f,
                             .fill_mode = mode,
                             .interpolation = interpolation,
                             .fill_value = 0.75f}),
          filling, images, [](const std::array<double, 2>& u, double row, double column) {
            return std::array{
                row - double{rows} * between_numbers(double{-0.3f}, double{0.9f}, u[0]),
                column - double{columns} * between_numbers(double{-0.8f}, double{0.8f}, u[1])};
          });
      check_motion(RandomRotation({.factor = 0.5f,
                                   .fill_mode = mode,
                                   .interpolation = interpolation,
                                   .fill_value = 0.75f}),
                   filling, images, [](const std::array<double, 2>& u, double row, double column) {
                     const double angle = 2 * std::acos(-1.0) * between_numbers(-0.5, 0.5, u[0]);
                     const double down = row - 3, right = column - 2;  // from the middle
                     return std::array{3 + std::sin(angle) * right + std::cos(angle) * down,
                                       2 + std::cos(angle) * right - std::sin(angle) * down};
                   });
      for (const bool joint : {true, false}) {
        RandomZoomOptions options{.height_factor = {-0.5f, 0.75f},
                                  .fill_mode = mode,
                                  .interpolation = interpolation,
                                  .fill_value = 0.75f};
        if (!joint) options.width_factor = 0.25f;
        check_motion(RandomZoom(options), filling, images,
                     [=](const std::array<double, 2>& u, double row, double column) {
                       const double high = 1 + between_numbers(-0.5, 0.75, u[0]);
                       const double wide = joint ? high : 1 + between_numbers(-0.25, 0.25, u[1]);
                       return std::array{3 + (row - 3) * high, 2 + (column - 2) * wide};
                     });
      }
    }
  }
}

TEST_CASE("a cut is at the drawn place in training, else in the middle") {
  const Shape shape{batch, 4, 3, channels};
  check_motion(RandomCrop({.height = 4, .width = 3}), {}, shape,
               [](const std::array<double, 2>& u, double row, double column) {
                 return std::array{row + std::floor(4 * u[0]), column + std::floor(3 * u[1])};
               });
  const Tensor x = random_tensor(images, 1), dy = random_tensor(shape, 2);
  const Run found = run_layer(RandomCrop({.height = 4, .width = 3}), x, dy, false);
  const Run middle = run_layer(CenterCrop({.height = 4, .width = 3}), x, dy, false);
  CHECK(found.y == middle.y);
  CHECK(found.dx == middle.dx);
}

TEST_CASE("outside training images do not move") {
  const Tensor x = random_tensor(images, 1), dy = random_tensor(images, 2);
  for (const SharedLayer& layer :
       {RandomFlip(), RandomRotation({.factor = 0.5f}), RandomZoom({.height_factor = 0.5f}),
        RandomTranslation({.height_factor = 0.5f, .width_factor = 0.5f})}) {
    const Run found = run_layer(layer, x, dy, false);
    CHECK(found.y == x.values);
    CHECK(found.dx == dy.values);
  }
}

TEST_CASE("wrong factors and images are errors that name the layer") {
  CHECK_THROWS_WITH(
      RandomRotation({.factor = 1.5f}),
      Catch::StartsWith("RandomRotation: factor: expected a number between -1 and 1"));
  CHECK_THROWS_WITH(RandomZoom({}), Catch::StartsWith("RandomZoom: height_factor: "));
  CHECK_THROWS_WITH(RandomFlip()(Input({7, 3})), Catch::Contains("expected images"));
  CHECK_THROWS_WITH(RandomCrop({.height = 8, .width = 2})(Input({7, 3, 1})),
                    Catch::Contains("expected images of at least 8 x 2"));
}

TEST_CASE("the middle of an image is cut out, its larger border below and at the right") {
  const Tensor x = random_tensor({2, 7, 5, 3}, 1);
  const Tensor dy = random_tensor({2, 4, 4, 3}, 2);
  const Run found = run_layer(CenterCrop({.height = 4, .width = 4}), x, dy);
  // Keras: rows from 3 // 2 on, columns from 1 // 2 on.
  for (std::size_t i = 0; i < found.y.size(); ++i) {
    const std::size_t channel = i % 3, column = i / 3 % 4, row = i / 12 % 4, sample = i / 48;
    REQUIRE(found.y[i] == x.values[((sample * 7 + row + 1) * 5 + column) * 3 + channel]);
    REQUIRE(found.dx[((sample * 7 + row + 1) * 5 + column) * 3 + channel] == dy.values[i]);
  }
}

TEST_CASE("the identity gives its input and its gradient") {
  const Tensor x = random_tensor({2, 3}, 1), dy = random_tensor({2, 3}, 2);
  const Run found = run_layer(Identity(), x, dy);
  CHECK(found.y == x.values);
  CHECK(found.dx == dy.values);
}

}  // namespace meshwork::augmentation_test

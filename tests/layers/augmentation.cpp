// Layers that cut images, move them or change their values: numbers against plain loops, and what
// is drawn.
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
#include "layers/pages.h"
#include "layers/resizing.h"
#include "runtime/config/load.h"
#include "runtime/device/philox.h"
#include "runtime/graph/layer_config.h"
#include "runtime/graph/operations/image_tone.h"
#include "tests/support/graph_runner.h"
#include "tests/support/strategy_validator.h"

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

/// Number i that a graph's first operation draws.
double drawn(const Graph& graph, std::uint64_t seed, std::int64_t i) {
  const std::uint64_t key = random_key(seed, graph.operations[0].path);
  return (philox_word(key, static_cast<std::uint64_t>(i),
                      static_cast<std::uint64_t>(OperationCase().step)) >>
          8) *
         0x1p-24;
}

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
  const std::vector<double>& y = found.values.at(graph.outputs[0]).values;
  const std::vector<double>& dx = found.gradients.at(graph.inputs[0]).values;
  std::vector<double> expected_dx(dx.size());
  std::size_t i = 0;
  for (std::int64_t s = 0; s < batch; ++s) {
    const std::array<double, 2> u{drawn(graph, request.seed, 2 * s),
                                  drawn(graph, request.seed, 2 * s + 1)};
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

/// Checks a layer whose values are `tone(x, mean of its channel in its image, the drawn number)`,
/// cut to -0.5 to 0.75.
void check_tone(const SharedLayer& layer,
                const std::function<double(double x, double mean, double u)>& tone) {
  const auto input = Input({rows, columns, channels});
  const Graph graph = make_graph({input}, {layer(input)});
  const GraphCase request{.inputs = {random_tensor(images, 1)}};
  const std::vector<double>& x = request.inputs[0].values;
  const std::vector<double> y = run_graph(graph, request).values.at(graph.outputs[0]).values;
  std::int64_t cut = 0;
  for (std::int64_t s = 0; s < batch; ++s) {
    for (std::int64_t k = 0; k < channels; ++k) {
      const auto at = [&](std::int64_t place) {
        return static_cast<std::size_t>((s * rows * columns + place) * channels + k);
      };
      double mean = 0;
      for (std::int64_t i = 0; i < rows * columns; ++i) mean += x[at(i)] / (rows * columns);
      for (std::int64_t i = 0; i < rows * columns; ++i) {
        const double value = tone(x[at(i)], mean, drawn(graph, request.seed, s));
        if (value < -0.5 || value > 0.75) ++cut;
        REQUIRE(y[at(i)] == Approx(std::clamp(value, -0.5, 0.75)).margin(1e-6));
      }
    }
  }
  CHECK((cut > 0 && cut < element_count(images)));
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

TEST_CASE("images become brighter and darker, by shares of their range, and keep to it") {
  const ImageRange range{-0.5f, 0.75f};
  check_tone(RandomBrightness({.factor = 0.5f, .value_range = range}),
             [](double x, double, double u) { return x + 1.25 * between_numbers(-0.5, 0.5, u); });
  check_tone(RandomBrightness({.factor = {0.25f, 1}, .value_range = range}),
             [](double x, double, double u) { return x + 1.25 * between_numbers(0.25, 1, u); });
}

TEST_CASE("the contrast of images changes around the mean of each channel") {
  const ImageRange range{-0.5f, 0.75f};
  check_tone(RandomContrast({.factor = 0.5f, .value_range = range}),
             [](double x, double mean, double u) {
               return mean + (x - mean) * between_numbers(0.5, 1.5, u);
             });
  check_tone(RandomContrast({.factor = {0.25f, 1}, .value_range = range}),
             [](double x, double mean, double u) {
               return mean + (x - mean) * between_numbers(0.75, 2, u);
             });
}

TEST_CASE("brightness and contrast agree with the truth over every split, and with differences") {
  for (const Tone tone : {Tone::brightness, Tone::contrast}) {
    ImageTone of{.tone = tone, .low = 0.25f, .high = 1.75f};
    const OperationCase what = case_of(ImageToneOperation(of), {3, 7, 5, 2});
    check_gradients(ImageToneOperation(of), what);
    of.darkest = -0.5f;
    of.brightest = 0.75f;
    check_strategies(ImageToneOperation(of), what);
  }
}

// dx by jax.vjp of Keras 3.15's transform_images, with contrast_factor 0.75.
TEST_CASE("the gradient of contrast is that of Keras") {
  const OperationCase what{
      .inputs = {Tensor({1, 2, 2, 2}, {-0.5, 1.0, 0.25, 0.5, 0.75, -1.0, 0.0, 0.75})},
      .output_gradient = Tensor({1, 2, 2, 2}, {0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0})};
  const ImageTone tone{
      .tone = Tone::contrast, .low = 0.75f, .high = 0.75f, .darkest = -1, .brightest = 1};
  CHECK(difference(*run_whole(ImageToneOperation(tone), what).gradients[0],
                   Tensor({1, 2, 2, 2},
                          {0.21875, 0.34375, 0.40625, 0.53125, 0.59375, 0.71875, 0.78125, 0.90625}),
                   1e-6) == "");
}

TEST_CASE("outside training images stay as they are") {
  const Tensor x = random_tensor(images, 1), dy = random_tensor(images, 2);
  for (const SharedLayer& layer :
       {RandomFlip(), RandomRotation({.factor = 0.5f}), RandomZoom({.height_factor = 0.5f}),
        RandomTranslation({.height_factor = 0.5f, .width_factor = 0.5f}),
        RandomBrightness({.factor = 0.5f}), RandomContrast({.factor = 0.5f})}) {
    const Run found = run_layer(layer, x, dy, false);
    CHECK(found.y == x.values);
    CHECK(found.dx == dy.values);
  }
}

TEST_CASE("configurations give factors, ranges and sizes as programs do") {
  const auto made = [](const std::string& text) {
    Catalog catalog;
    add_layers(catalog);
    return catalog.make<SharedLayer>(parse_config(text, "net.yaml"));
  };
  const Tensor x = random_tensor(images, 1);
  const auto check = [&](const std::string& text, const SharedLayer& layer) {
    INFO(text);
    const SharedLayer written = made(text);
    Shape shape = written(Input({rows, columns, channels})).shape();
    shape.front() = batch;
    const Tensor dy = random_tensor(shape, 2);
    CHECK(run_layer(written, x, dy).y == run_layer(layer, x, dy).y);
  };
  check("RandomBrightness: {name: l, factor: [0.25, -0.5], value_range: [1, -1]}",
        RandomBrightness({.name = "l", .factor = {-0.5f, 0.25f}, .value_range = {-1, 1}}));
  check("RandomContrast: {name: l, factor: 0.5, value_range: [-1, 1]}",
        RandomContrast({.name = "l", .factor = {0.5f, 0.5f}, .value_range = {1, -1}}));
  check("RandomRotation: {name: l, factor: 0.25}",
        RandomRotation({.name = "l", .factor = {-0.25f, 0.25f}}));
  check("Resizing: {height: 4, width: 9, interpolation: nearest, crop_to_aspect_ratio: true}",
        Resizing({.height = 4,
                  .width = 9,
                  .interpolation = Interpolation::nearest,
                  .crop_to_aspect_ratio = true}));
  CHECK_THROWS_WITH(made("RandomContrast: {factor: 0.5, value_range: 1}"),
                    Catch::Contains("net.yaml:1:"));
  CHECK_THROWS_WITH(made("RandomContrast: {factor: 0.5, value_range: [0, 1, 2]}"),
                    Catch::Contains("expected two numbers, found 3"));
  CHECK_THROWS_WITH(made("RandomContrast: {factor: [0.5]}"),
                    Catch::Contains("expected one number, or two, found 1"));
  for (const std::string written : {"-0.5", "1.5", "[-0.5, 0.5]", "[0.5, -0.5]"}) {
    CHECK_THROWS_WITH(made("RandomContrast: {factor: " + written + "}"),
                      Catch::Contains("factor: expected a number between 0 and 1, found ") &&
                          Catch::Contains(written == "1.5" ? "1.5" : "-0.5"));
  }
  CHECK_THROWS_WITH(made("RandomBrightness: {factor: 1.5}"), Catch::Contains("found 1.5"));
  CHECK_THROWS_WITH(made("RandomBrightness: {factor: [-1.5, 0]}"), Catch::Contains("found -1.5"));
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

// Of Keras 3.15.
TEST_CASE("images keep their proportions where they are resized so") {
  const auto resized = [](const Shape& shape, ResizingOptions options) {
    Tensor x(shape);
    for (std::size_t i = 0; i < x.values.size(); ++i) x.values[i] = static_cast<double>(i + 1);
    const Tensor dy({1, options.height, options.width, 1});
    return Tensor(dy.shape, run_layer(Resizing(options), x, dy).y);
  };
  const Shape wide{1, 3, 5, 1}, high{1, 5, 3, 1};
  const auto check = [](const Tensor& found, const std::vector<double>& keras) {
    CHECK(difference(found, Tensor(found.shape, keras), 1e-6) == "");
  };
  check(resized(wide, {.height = 2, .width = 2, .crop_to_aspect_ratio = true}), {3.5, 5, 11, 12.5});
  check(resized(high, {.height = 4, .width = 3, .crop_to_aspect_ratio = true}),
        {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  check(resized(wide, {.height = 2, .width = 2, .pad_to_aspect_ratio = true}),
        {1.3125, 3.1875, 8.8125, 10.6875});
  check(resized(high, {.height = 4, .width = 3, .pad_to_aspect_ratio = true}),
        {1.375, 2.375, 3.375, 5.125, 6.125, 7.125, 8.875, 9.875, 10.875, 12.625, 13.625, 14.625});
  CHECK_THROWS_WITH(
      Resizing(
          {.height = 2, .width = 2, .crop_to_aspect_ratio = true, .pad_to_aspect_ratio = true}),
      Catch::Contains("crop_to_aspect_ratio and pad_to_aspect_ratio are both given"));
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

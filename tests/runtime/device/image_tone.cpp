#include "runtime/device/kernels/image_tone.h"

#include <cmath>
#include <limits>

#include "tests/runtime/device/support.h"

namespace meshwork::test::image_tone_test {

namespace {

const std::vector<float> images{-0.5f, 1.0f,    0.25f,  0.5f, 0.75f,   -1.0f,  0.0f,  0.75f,
                                0.5f,  -0.375f, 0.125f, 0.5f, -0.125f, 0.625f, 0.25f, 0.375f};
const MiddleExtents two_images{.outer = 2, .middle = 4, .inner = 2};

}  // namespace

// Keras 3.15: transform_images with these rgb_delta and contrast_factor, value_range (-1, 1).
TEST_CASE("brightness and contrast of images are those of Keras") {
  const ImageTone brightness{
      .tone = Tone::brightness, .low = -1, .high = 1, .darkest = -1, .brightest = 1};
  Array<> x(images), y(16), u{0.3125f, 0.8125f};
  run(ImageToneSpec{brightness, two_images}, x, u, y);
  CHECK(y.values() == std::vector<float>{-0.875f, 0.625f, -0.125f, 0.125f, 0.375f, -1.0f, -0.375f,
                                         0.375f, 1.0f, 0.25f, 0.75f, 1.0f, 0.5f, 1.0f, 0.875f,
                                         1.0f});
  const ImageTone contrast{
      .tone = Tone::contrast, .low = 0.5f, .high = 2, .darkest = -0.5f, .brightest = 0.75f};
  Array<> means{0.125f, 0.3125f, 0.1875f, 0.28125f}, factors{1.0f / 6, 5.0f / 6};
  run(ImageToneSpec{contrast, two_images}, x, factors, means, x);
  check_close(x,
              {-0.34375, 0.75, 0.21875, 0.453125, 0.59375, -0.5, 0.03125, 0.640625, 0.734375, -0.5,
               0.078125, 0.6640625, -0.359375, 0.75, 0.296875, 0.4453125},
              1e-6);
}

TEST_CASE("a value that is not a number stays one, and images may be empty") {
  Array<> x{std::numeric_limits<float>::quiet_NaN()}, u{0.5f}, y(1), none(0);
  run(ImageToneSpec{{.darkest = 0, .brightest = 1}, {1, 1, 1}}, x, u, y);
  CHECK(std::isnan(y[0]));
  run(ImageToneSpec{{.tone = Tone::contrast}, {1, 0, 3}}, none, u, none, none);
}

TEST_CASE("values that became the darkest or the brightest give no gradient") {
  Array<> y{-1, -0.5f, 0, 0.5f, 1}, dy{1, 2, 3, 4, 5}, dx(5);
  run(InnerGradientSpec{5, -1, 1}, y, dy, dx);
  CHECK(dx.values() == std::vector<float>{0, 2, 3, 4, 0});
}

}  // namespace meshwork::test::image_tone_test

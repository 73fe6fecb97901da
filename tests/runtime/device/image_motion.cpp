#include "runtime/device/kernels/image_motion.h"

#include "tests/runtime/device/support.h"

namespace meshwork::test::image_motion_test {

namespace {

constexpr ImageMotionShape two_rows{
    .batch = 1, .rows = 2, .columns = 4, .to_rows = 2, .to_columns = 4, .channels = 1};

std::vector<float> moved(const ImageMotion& motion) {
  Array<> x{1, 2, 3, 4, 5, 6, 7, 8}, u{0.25f, 0.25f}, y(8);
  run(ImageMotionSpec{motion, two_rows}, x, u, y);
  return y.values();
}

/// Added to tens.
std::vector<float> gradient(const ImageMotion& motion) {
  Array<> dy{1, 2, 3, 4, 5, 6, 7, 8}, u{0.25f, 0.25f}, dx(std::vector<float>(8, 10));
  run(ImageMotionGradientSpec{motion, two_rows}, dy, u, dx);
  return dx.values();
}

}  // namespace

TEST_CASE("a flip of columns is its own gradient") {
  const ImageMotion flip{.motion = Motion::flip, .high = {0, 1}};
  CHECK(moved(flip) == std::vector<float>{4, 3, 2, 1, 8, 7, 6, 5});
  CHECK(gradient(flip) == std::vector<float>{14, 13, 12, 11, 18, 17, 16, 15});
}

TEST_CASE("a translation fills what comes from outside, and its gradient goes back") {
  ImageMotion right{
      .motion = Motion::translation, .low = {0, 0.25f}, .high = {0, 0.25f}, .fill_value = 9};
  CHECK(moved(right) == std::vector<float>{9, 1, 2, 3, 9, 5, 6, 7});
  CHECK(gradient(right) == std::vector<float>{12, 13, 14, 10, 16, 17, 18, 10});
  right.fill = FillMode::wrap;
  CHECK(moved(right) == std::vector<float>{4, 1, 2, 3, 8, 5, 6, 7});
  CHECK(gradient(right) == std::vector<float>{12, 13, 14, 11, 16, 17, 18, 15});
}

TEST_CASE("a translation by half a pixel takes means of neighbours") {
  const ImageMotion half{.motion = Motion::translation,
                         .low = {0, 0.125f},
                         .high = {0, 0.125f},
                         .interpolation = Interpolation::bilinear,
                         .fill = FillMode::nearest};
  CHECK(moved(half) == std::vector<float>{1, 1.5f, 2.5f, 3.5f, 5, 5.5f, 6.5f, 7.5f});
  CHECK(gradient(half) == std::vector<float>{12, 12.5f, 13.5f, 12, 18, 16.5f, 17.5f, 14});
}

}  // namespace meshwork::test::image_motion_test

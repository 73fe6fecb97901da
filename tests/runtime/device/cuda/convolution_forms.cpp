#include "runtime/device/cuda/convolution_forms.h"
#include "runtime/device/kernels/windows.h"

#include <vector>

#include "tests/support/catch.h"

namespace meshwork::cuda::convolution_forms_test {

TEST_CASE("padding as cuDNN knows it leaves every window where it was") {
  std::int64_t copies = 0, plain = 0;
  for (std::int64_t input = 1; input <= 7; ++input) {
    for (std::int64_t output = 1; output <= 5; ++output) {
      for (std::int64_t window = 1; window <= 4; ++window) {
        for (std::int64_t stride = 1; stride <= 3; ++stride) {
          for (std::int64_t dilation = 1; dilation <= 2; ++dilation) {
            for (std::int64_t padding = -2; padding <= 8; ++padding) {
              const WindowDimension at{input, output, window, stride, dilation, padding};
              const PaddedDimension seen = padded(at);
              // The documented length of cuDNN's output.
              const std::int64_t reach = dilation * (window - 1) + 1;
              CHECK(seen.padding >= 0);
              CHECK((seen.input + 2 * seen.padding - reach) / stride + 1 == output);
              if (!seen.copied) {
                CHECK(seen.input == input);
                CHECK(seen.padding == padding);
                ++plain;
                continue;
              }
              // The copy holds input i at i + padding, and exactly what the windows look at.
              CHECK(seen.padding == 0);
              CHECK((output - 1) * stride + reach == seen.input);
              ++copies;
            }
          }
        }
      }
    }
  }
  CHECK(copies > 1000);
  CHECK(plain > 100);
}

TEST_CASE("the uneven padding of even windows is copied, that of odd ones is not") {
  // 28 by 6 with stride 2, `same`: 14 outputs, 4 pixels of padding, 2 on each side.
  CHECK_FALSE(padded({28, 14, 6, 2, 1, 2}).copied);
  CHECK_FALSE(padded({28, 28, 3, 1, 1, 1}).copied);
  // 27 by 6 with stride 2: 14 outputs, 5 pixels, 2 in front.
  CHECK(padded({27, 14, 6, 2, 1, 2}).copied);
}

TEST_CASE("volumes are shifted into larger and smaller ones and back") {
  // Two images of 2 by 3 with two channels, one row and two columns further in 4 by 4, in the
  // second of three planes.
  std::vector<float> from(2 * 2 * 3 * 2), to(2 * 3 * 4 * 4 * 2, -1.0f), back(from.size(), -1.0f);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i + 1);
  const VolumeShift shift{2, 2, {1, 2, 3}, {3, 4, 4}, {1, 1, 2}};
  CHECK(shift.to_count() == 192);
  shift_volumes(Launcher{}, shift, from.data(), to.data(), false);
  const auto pixel = [&](std::size_t image, std::size_t row, std::size_t column) {
    return to[(((image * 3 + 1) * 4 + row) * 4 + column) * 2];
  };
  CHECK(to[2 * (4 + 2)] == 0);  // of the first plane
  CHECK(pixel(0, 0, 0) == 0);
  CHECK(pixel(0, 1, 2) == 1);
  CHECK(pixel(0, 2, 3) == 9);  // row 1, column 1
  CHECK(pixel(1, 1, 2) == 13);
  CHECK(pixel(1, 3, 3) == 0);
  shift_volumes(Launcher{}, shift.back(), to.data(), back.data(), false);
  // The third column had fallen off.
  for (std::size_t i = 0; i < from.size(); ++i) {
    CHECK(back[i] == (i / 2 % 3 == 2 ? 0.0f : from[i]));
  }
}

TEST_CASE("a kernel transposed twice is itself") {
  std::vector<float> kernel(3 * 5), transposed(15), again(15);
  for (std::size_t i = 0; i < kernel.size(); ++i) kernel[i] = static_cast<float>(i);
  transpose(Launcher{}, 3, 5, kernel.data(), transposed.data(), false);
  CHECK(transposed[0] == 0);
  CHECK(transposed[1] == 5);
  CHECK(transposed[3] == 1);
  transpose(Launcher{}, 5, 3, transposed.data(), again.data(), false);
  CHECK(again == kernel);
}

}  // namespace meshwork::cuda::convolution_forms_test

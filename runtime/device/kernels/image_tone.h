// Images made brighter or darker, or of more or less contrast, each by a number of its own.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "runtime/device/kernels/middle.h"
#include "runtime/device/kernels/page.h"

namespace meshwork {

enum class Tone : std::uint8_t { brightness, contrast };

/// Of each sample the number t = low + (high - low) * u follows from its u, of [0, 1). Element x
/// becomes
///   brightness  x + t
///   contrast    m + (x - m) * t, with the mean m of its channel in its image
/// as in Keras's RandomBrightness and RandomContrast, and then `darkest` or `brightest` where it is
/// beyond. NaN stays NaN.
struct ImageTone {
  Tone tone = Tone::brightness;
  float low = 0, high = 0;
  float darkest = -std::numeric_limits<float>::infinity();
  float brightest = std::numeric_limits<float>::infinity();
};

/// y (samples, places, channels) from x. Operands: x, u (samples), [m (samples,
/// channels), of contrast], y.
struct ImageToneSpec {
  ImageTone tone;
  MiddleExtents at;
  [[nodiscard]] std::string text() const { return at.text("image tone"); }
  [[nodiscard]] KernelWork work() const { return at.work(2, 1); }
  [[nodiscard]] InPlace in_place() const { return {{0}}; }
};
/// dx = dy where darkest < y < brightest, else 0. Operands: y, dy, dx.
struct InnerGradientSpec {
  std::int64_t count = 0;
  float darkest = 0, brightest = 0;
  [[nodiscard]] std::string text() const { return spec::sized("inner gradient", {count}); }
  [[nodiscard]] KernelWork work() const { return spec::passes(3, count); }
};

}  // namespace meshwork

// Layers that move each image in training, or change its values, by numbers that are drawn for it.
// Outside training they change nothing.
//
// The numbers follow from the model's seed, the layer's path, the step and the sample's index in
// the global batch. No variables. All throw `Error`, when called, for inputs that are no images.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "runtime/device/kernels/image_motion.h"
#include "runtime/graph/layer.h"

namespace meshwork {

/// The range in which a number is drawn, uniformly: `.factor = 0.2f` is `{-0.2f, 0.2f}`, in
/// configurations too.
struct Factor {
  static constexpr const char* expected = "a number, or a list of two";
  float low, high;
  Factor() : Factor(std::numeric_limits<float>::quiet_NaN()) {}  // in no range
  Factor(float size);
  Factor(float of_low, float of_high) : low(of_low), high(of_high) {}
};

/// How much less contrast at most, and how much more: `.factor = 0.2f` is `{0.2f, 0.2f}`; alike in
/// configurations.
struct ContrastFactor {
  static constexpr const char* expected = Factor::expected;
  float less, more;
  ContrastFactor() : ContrastFactor(std::numeric_limits<float>::quiet_NaN()) {}  // in no range
  ContrastFactor(float both) : less(both), more(both) {}
  ContrastFactor(float of_less, float of_more) : less(of_less), more(of_more) {}
};

/// The darkest and the brightest value that images have, in either order, as in Keras:
/// `.value_range = {0, 1}`.
struct ImageRange {
  static constexpr const char* expected = "a list of two numbers";
  float darkest = 0, brightest = 255;
  ImageRange() = default;
  ImageRange(float one, float other)
      : darkest(std::min(one, other)), brightest(std::max(one, other)) {}
};

enum class FlipMode : std::uint8_t { horizontal_and_vertical, horizontal, vertical };

struct RandomFlipOptions {
  std::string name;
  FlipMode mode = FlipMode::horizontal_and_vertical;
};

/// Each second image mirrored, left to right (horizontal), upside down (vertical), or both at once,
/// as in Keras.
[[nodiscard]] SharedLayer RandomFlip(RandomFlipOptions options = {});

struct RandomTranslationOptions {
  std::string name;
  Factor height_factor, width_factor;  // have to be given
  FillMode fill_mode = FillMode::reflect;
  Interpolation interpolation = Interpolation::bilinear;
  float fill_value = 0;
};

/// Each image moved down and to the right, by shares of its height and width.
[[nodiscard]] SharedLayer RandomTranslation(RandomTranslationOptions options);

struct RandomRotationOptions {
  std::string name;
  Factor factor;  // has to be given
  FillMode fill_mode = FillMode::reflect;
  Interpolation interpolation = Interpolation::bilinear;
  float fill_value = 0;
};

/// Each image rotated around its middle, by so many turns.
[[nodiscard]] SharedLayer RandomRotation(RandomRotationOptions options);

struct RandomZoomOptions {
  std::string name;
  Factor height_factor;                               // has to be given
  std::optional<Factor> width_factor = std::nullopt;  // none: the width is scaled as the height
  FillMode fill_mode = FillMode::reflect;
  Interpolation interpolation = Interpolation::bilinear;
  float fill_value = 0;
};

/// Each image scaled: by a factor above 0 it shows more, and smaller, than before.
[[nodiscard]] SharedLayer RandomZoom(RandomZoomOptions options);

struct RandomCropOptions {
  std::string name;
  std::int64_t height = 0, width = 0;  // have to be given
};

/// y (batch, height, width, channels): a part of each image, at a place of its own (Keras draws one
/// for a whole batch); outside training the middle. Throws `Error`, when called, for smaller
/// images.
[[nodiscard]] SharedLayer RandomCrop(RandomCropOptions options);

struct RandomBrightnessOptions {
  std::string name;
  Factor factor;  // has to be given
  ImageRange value_range;
};

/// Each image brighter or darker, by a share of the range of values, and cut to that range.
[[nodiscard]] SharedLayer RandomBrightness(RandomBrightnessOptions options);

struct RandomContrastOptions {
  std::string name;
  ContrastFactor factor;  // from 0 to 1; has to be given
  ImageRange value_range;
};

/// Each channel of an image moved away from its mean, or towards it, and cut to the range of
/// values: y = m + (x - m) * t, with t between 1 - less and 1 + more. Keras documents the same, but
/// for one number f its release 3.15 draws t between 1 and 1 + f.
[[nodiscard]] SharedLayer RandomContrast(RandomContrastOptions options);

}  // namespace meshwork

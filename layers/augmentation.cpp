#include "layers/augmentation.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "layers/layer_of.h"
#include "layers/spatial.h"
#include "runtime/config/float_range.h"
#include "runtime/config/number_pair.h"
#include "runtime/graph/operations/image_motion.h"
#include "runtime/graph/operations/image_tone.h"

namespace meshwork {

Factor::Factor(float size) : low(-std::abs(size)), high(std::abs(size)) {}

void from_config(const ConfigNode& node, Factor& factor) {
  factor = one_or_two_numbers<float, Factor>(node);
}

std::string to_text(const Factor& factor) {
  return fmt::format("({}, {})", factor.low, factor.high);
}

// The larger one first: it is the number itself, where one was given.
std::array<float, 2> numbers_of(const Factor& factor) {
  return {factor.high, factor.low};
}

void from_config(const ConfigNode& node, ContrastFactor& factor) {
  factor = one_or_two_numbers<float, ContrastFactor>(node);
}

std::string to_text(const ContrastFactor& factor) {
  return fmt::format("({}, {})", factor.less, factor.more);
}

std::array<float, 2> numbers_of(const ContrastFactor& factor) {
  return {factor.less, factor.more};
}

void from_config(const ConfigNode& node, ImageRange& range) {
  std::tie(range.darkest, range.brightest) = two_numbers<float>(node, "two numbers");
}

std::string to_text(const ImageRange& range) {
  return fmt::format("({}, {})", range.darkest, range.brightest);
}

std::array<float, 2> numbers_of(const ImageRange& range) {
  return {range.darkest, range.brightest};
}

namespace {

constexpr ValueRange share_range = between(-1, 1);

template <class Options, class Visitor>
void describe_filling(Options& options, Visitor& option) {
  option.choice("fill_mode", options.fill_mode,
                {{"reflect", FillMode::reflect},
                 {"constant", FillMode::constant},
                 {"nearest", FillMode::nearest},
                 {"wrap", FillMode::wrap}},
                "values outside the image: the image mirrored, fill_value, its outermost pixels, "
                "or the image again");
  option.choice("interpolation", options.interpolation,
                {{"bilinear", Interpolation::bilinear}, {"nearest", Interpolation::nearest}},
                "interpolate between pixels, or take the nearest one");
  option("fill_value", options.fill_value, "the value outside, with fill_mode constant");
}

template <class Options, class Visitor>
void describe_values(Options& options, Visitor& option) {
  option("value_range", options.value_range, float_any,
         "range of values, to which images are clipped: [darkest, brightest]");
}

}  // namespace

template <class Visitor>
void describe(RandomFlipOptions& options, Visitor& option) {
  option.about("mirrors each second image in training");
  describe_name(options, option);
  option.choice("mode", options.mode,
                {{"horizontal_and_vertical", FlipMode::horizontal_and_vertical},
                 {"horizontal", FlipMode::horizontal},
                 {"vertical", FlipMode::vertical}},
                "left to right, upside down, or both at once");
}

template <class Visitor>
void describe(RandomTranslationOptions& options, Visitor& option) {
  option.about("moves each image in training");
  describe_name(options, option);
  option.required("height_factor", options.height_factor, share_range,
                  "shift down, as a share of the height: (least, most)");
  option.required("width_factor", options.width_factor, share_range,
                  "shift to the right, as a share of the width: (least, most)");
  describe_filling(options, option);
}

template <class Visitor>
void describe(RandomRotationOptions& options, Visitor& option) {
  option.about("rotates each image in training");
  describe_name(options, option);
  option.required("factor", options.factor, share_range, "rotation in turns: (least, most)");
  describe_filling(options, option);
}

template <class Visitor>
void describe(RandomZoomOptions& options, Visitor& option) {
  option.about("scales each image in training");
  describe_name(options, option);
  option.required("height_factor", options.height_factor, share_range,
                  "change of the visible height, as a share: (least, most)");
  option("width_factor", options.width_factor, share_range,
         "change of the visible width, as a share; none: that of the height");
  describe_filling(options, option);
}

template <class Visitor>
void describe(RandomCropOptions& options, Visitor& option) {
  option.about("cuts a part out of each image, at a random place in training, else in the middle");
  describe_name(options, option);
  option.required("height", options.height, length, "rows to keep");
  option.required("width", options.width, length, "columns to keep");
}

template <class Visitor>
void describe(RandomBrightnessOptions& options, Visitor& option) {
  option.about("makes each image brighter or darker in training");
  describe_name(options, option);
  option.required("factor", options.factor, share_range,
                  "change of brightness, as a share of the range of values: (least, most)");
  describe_values(options, option);
}

template <class Visitor>
void describe(RandomContrastOptions& options, Visitor& option) {
  option.about("gives each image more or less contrast in training");
  describe_name(options, option);
  option.required("factor", options.factor, between(0, 1),
                  "largest decrease and increase of contrast: (less, more)");
  describe_values(options, option);
}

namespace {

template <class Options>
ImageMotion filling(Motion motion, const Options& of, const Factor& rows, const Factor& columns) {
  return {.motion = motion,
          .low = {rows.low, columns.low},
          .high = {rows.high, columns.high},
          .interpolation = of.interpolation,
          .fill = of.fill_mode,
          .fill_value = of.fill_value};
}

template <class Options, class Of>
SharedLayer moving(const char* class_name, Options options, Of motion_of) {
  return layer_of(class_name, std::move(options),
                  [motion_of](const Options& of, LayerBuilder& builder, TensorId x) {
                    return builder.apply(std::make_unique<ImageMotionOperation>(motion_of(of)),
                                         {x});
                  });
}

template <class Options, class Of>
SharedLayer toned(const char* class_name, Options options, Of tone_of) {
  return layer_of(class_name, std::move(options),
                  [tone_of](const Options& of, LayerBuilder& builder, TensorId x) {
                    ImageTone tone = tone_of(of);
                    tone.darkest = of.value_range.darkest;
                    tone.brightest = of.value_range.brightest;
                    return builder.apply(std::make_unique<ImageToneOperation>(tone), {x});
                  });
}

}  // namespace

SharedLayer RandomFlip(RandomFlipOptions options) {
  return moving("RandomFlip", std::move(options), [](const RandomFlipOptions& of) {
    ImageMotion motion{.motion = Motion::flip, .joint = true};
    motion.high = {of.mode == FlipMode::horizontal ? 0.0f : 1.0f,
                   of.mode == FlipMode::vertical ? 0.0f : 1.0f};
    return motion;
  });
}

SharedLayer RandomTranslation(RandomTranslationOptions options) {
  return moving("RandomTranslation", std::move(options), [](const RandomTranslationOptions& of) {
    return filling(Motion::translation, of, of.height_factor, of.width_factor);
  });
}

SharedLayer RandomRotation(RandomRotationOptions options) {
  return moving("RandomRotation", std::move(options), [](const RandomRotationOptions& of) {
    return filling(Motion::rotation, of, of.factor, {0, 0});
  });
}

SharedLayer RandomZoom(RandomZoomOptions options) {
  return moving("RandomZoom", std::move(options), [](const RandomZoomOptions& of) {
    ImageMotion motion =
        filling(Motion::zoom, of, of.height_factor, of.width_factor.value_or(of.height_factor));
    motion.joint = !of.width_factor.has_value();
    return motion;
  });
}

SharedLayer RandomCrop(RandomCropOptions options) {
  return layer_of("RandomCrop", std::move(options),
                  [](const RandomCropOptions& of, LayerBuilder& builder, TensorId x) {
                    return builder.apply(
                        std::make_unique<ImageMotionOperation>(of.height, of.width), {x});
                  });
}

SharedLayer RandomBrightness(RandomBrightnessOptions options) {
  return toned("RandomBrightness", std::move(options), [](const RandomBrightnessOptions& of) {
    const float range = of.value_range.brightest - of.value_range.darkest;
    return ImageTone{
        .tone = Tone::brightness, .low = of.factor.low * range, .high = of.factor.high * range};
  });
}

SharedLayer RandomContrast(RandomContrastOptions options) {
  return toned("RandomContrast", std::move(options), [](const RandomContrastOptions& of) {
    return ImageTone{.tone = Tone::contrast, .low = 1 - of.factor.less, .high = 1 + of.factor.more};
  });
}

void add_augmentation(Catalog& catalog) {
  catalog.add<SharedLayer, RandomFlipOptions>("RandomFlip", {}, RandomFlip);
  catalog.add<SharedLayer, RandomTranslationOptions>("RandomTranslation", {}, RandomTranslation);
  catalog.add<SharedLayer, RandomRotationOptions>("RandomRotation", {}, RandomRotation);
  catalog.add<SharedLayer, RandomZoomOptions>("RandomZoom", {}, RandomZoom);
  catalog.add<SharedLayer, RandomCropOptions>("RandomCrop", {}, RandomCrop);
  catalog.add<SharedLayer, RandomBrightnessOptions>("RandomBrightness", {}, RandomBrightness);
  catalog.add<SharedLayer, RandomContrastOptions>("RandomContrast", {}, RandomContrast);
}

}  // namespace meshwork

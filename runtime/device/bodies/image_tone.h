// Brightness and contrast of images, for the loops of any device. Bound by memory traffic.
#pragma once

#include "runtime/device/body_forms.h"
#include "runtime/device/kernels/image_tone.h"

namespace meshwork::bodies {

// y = factor * x + offset, of a channel of a sample.
struct ChannelTone {
  float factor, offset;
};

struct TonedImages {
  const float *x, *u, *mean;
  float* y;
  ImageTone of;
  std::int64_t channels;
  [[nodiscard]] MESHWORK_HOST_DEVICE ChannelTone share(std::int64_t channel_of_sample) const {
    const float t = of.low + (of.high - of.low) * u[channel_of_sample / channels];
    if (of.tone == Tone::brightness) return {1, t};
    return {t, (1 - t) * mean[channel_of_sample]};
  }
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i, std::int64_t, ChannelTone tone) const {
    const float value = tone.factor * x[i] + tone.offset;
    y[i] = value < of.darkest ? of.darkest : value > of.brightest ? of.brightest : value;
  }
};
struct InnerGradient {
  float darkest, brightest;
  MESHWORK_HOST_DEVICE float operator()(float y, float dy) const {
    return y > darkest && y < brightest ? dy : 0.0f;
  }
};

template <class Loops>
void add_image_tone(auto& kernels) {
  kernels.template add<ImageToneSpec>([](const ImageToneSpec& spec, const auto& context) {
    const bool means = spec.tone.tone == Tone::contrast;
    return Loops::spread(context, spec.at, 8,
                         [=, of = spec.tone, channels = spec.at.inner](void* const* operands) {
                           return TonedImages{at(operands, 0),
                                              at(operands, 1),
                                              means ? at(operands, 2) : nullptr,
                                              at(operands, means ? 3 : 2),
                                              of,
                                              channels};
                         });
  });
  kernels.template add<InnerGradientSpec>([](const InnerGradientSpec& spec, const auto& context) {
    return map_two<Loops>(context, spec.count, InnerGradient{spec.darkest, spec.brightest});
  });
}

}  // namespace meshwork::bodies

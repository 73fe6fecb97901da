#include "layers/noise.h"

#include <cmath>
#include <memory>
#include <utility>

#include "collectives/error.h"
#include "layers/layer_of.h"
#include "runtime/graph/operations/noise.h"
#include "runtime/graph/operations/windows.h"

namespace meshwork {

template <class Visitor>
void describe(GaussianNoiseOptions& options, Visitor& option) {
  option.about("adds random numbers of a normal distribution in training");
  describe_name(options, option);
  option.required("stddev", options.stddev, between(0, 1), "their standard deviation");
}

template <class Visitor>
void describe(GaussianDropoutOptions& options, Visitor& option) {
  option.about("multiplies by random numbers around 1 in training");
  describe_name(options, option);
  option.required("rate", options.rate, at_least(0).below(1),
                  "gives the factors the variance rate / (1 - rate), as in Dropout");
}

template <class Visitor>
void describe(AlphaDropoutOptions& options, Visitor& option) {
  option.about("sets random elements to selu's least value in training, and keeps the variance");
  describe_name(options, option);
  option.required("rate", options.rate, at_least(0).below(1), "share of elements set to it");
}

template <class Visitor>
void describe(SpatialDropoutOptions& options, Visitor& option) {
  option.about("sets random channels of a sample to 0 in training and scales the others up");
  describe_name(options, option);
  option.required("rate", options.rate, between(0, 1), "share of channels set to 0");
}

SharedLayer GaussianNoise(GaussianNoiseOptions options) {
  return layer_of("GaussianNoise", std::move(options),
                  [](const GaussianNoiseOptions& of, LayerBuilder& builder, TensorId x) {
                    return builder.apply(std::make_unique<NoiseOperation>(Noise::added, of.stddev),
                                         {x});
                  });
}

SharedLayer GaussianDropout(GaussianDropoutOptions options) {
  return layer_of("GaussianDropout", std::move(options),
                  [](const GaussianDropoutOptions& of, LayerBuilder& builder, TensorId x) {
                    const float deviation = std::sqrt(of.rate / (1 - of.rate));
                    return builder.apply(
                        std::make_unique<NoiseOperation>(Noise::multiplied, deviation), {x});
                  });
}

SharedLayer AlphaDropout(AlphaDropoutOptions options) {
  return layer_of("AlphaDropout", std::move(options),
                  [](const AlphaDropoutOptions& of, LayerBuilder& builder, TensorId x) {
                    return builder.apply(std::make_unique<NoiseOperation>(Noise::to_low, of.rate),
                                         {x});
                  });
}

namespace {

SharedLayer spatial_dropout(std::size_t spatial, SpatialDropoutOptions options) {
  return layer_of(fmt::format("SpatialDropout{}D", spatial), std::move(options),
                  [spatial](const SpatialDropoutOptions& of, LayerBuilder& builder, TensorId x) {
                    check_image(builder.shape(x), spatial);
                    return builder.apply(std::make_unique<NoiseOperation>(Noise::channels, of.rate),
                                         {x});
                  });
}

}  // namespace

SharedLayer SpatialDropout1D(SpatialDropoutOptions options) {
  return spatial_dropout(1, std::move(options));
}

SharedLayer SpatialDropout2D(SpatialDropoutOptions options) {
  return spatial_dropout(2, std::move(options));
}

SharedLayer SpatialDropout3D(SpatialDropoutOptions options) {
  return spatial_dropout(3, std::move(options));
}

void add_noise(Catalog& catalog) {
  catalog.add<SharedLayer, GaussianNoiseOptions>("GaussianNoise", {}, GaussianNoise);
  catalog.add<SharedLayer, GaussianDropoutOptions>("GaussianDropout", {}, GaussianDropout);
  catalog.add<SharedLayer, AlphaDropoutOptions>("AlphaDropout", {}, AlphaDropout);
  catalog.add<SharedLayer, SpatialDropoutOptions>("SpatialDropout1D", {}, SpatialDropout1D);
  catalog.add<SharedLayer, SpatialDropoutOptions>("SpatialDropout2D", {}, SpatialDropout2D);
  catalog.add<SharedLayer, SpatialDropoutOptions>("SpatialDropout3D", {}, SpatialDropout3D);
}

}  // namespace meshwork

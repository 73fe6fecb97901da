#include "layers/up_sampling.h"

#include <memory>
#include <utility>
#include <vector>

#include "layers/layer_of.h"
#include "runtime/graph/operations/upsampling.h"

namespace meshwork {

template <std::size_t dimensions, class Visitor>
void describe(UpSamplingOptions<dimensions>& options, Visitor& option) {
  option.about(dimensions == 1 ? "sequences enlarged by a whole factor"
                               : "volumes enlarged by whole factors");
  describe_name(options, option);
  option("size", options.size, length,
         dimensions == 1 ? "repetitions of each step" : "factors of planes, rows and columns");
}

template <class Visitor>
void describe(UpSampling2DOptions& options, Visitor& option) {
  option.about("images enlarged by whole factors");
  describe_name(options, option);
  option("size", options.size, length, "factors of rows and columns");
  option.choice("interpolation", options.interpolation,
                {{"nearest", Interpolation::nearest}, {"bilinear", Interpolation::bilinear}},
                "repeat pixels, or interpolate between their centres");
}

namespace {

template <class Options>
SharedLayer enlarging(const char* class_name, Options options) {
  return layer_of(
      class_name, std::move(options), [](const Options& of, LayerBuilder& builder, TensorId x) {
        const auto factors = by_dimension(of.size);
        Interpolation interpolation = Interpolation::nearest;
        if constexpr (requires { of.interpolation; }) {
          interpolation = of.interpolation;
        }
        return builder.apply(std::make_unique<UpsamplingOperation>(
                                 std::vector(factors.begin(), factors.end()), interpolation),
                             {x});
      });
}

}  // namespace

SharedLayer UpSampling1D(UpSampling1DOptions options) {
  return enlarging("UpSampling1D", std::move(options));
}

SharedLayer UpSampling2D(UpSampling2DOptions options) {
  return enlarging("UpSampling2D", std::move(options));
}

SharedLayer UpSampling3D(UpSampling3DOptions options) {
  return enlarging("UpSampling3D", std::move(options));
}

void add_up_sampling(Catalog& catalog) {
  catalog.add<SharedLayer, UpSampling1DOptions>("UpSampling1D", {}, UpSampling1D);
  catalog.add<SharedLayer, UpSampling2DOptions>("UpSampling2D", {}, UpSampling2D);
  catalog.add<SharedLayer, UpSampling3DOptions>("UpSampling3D", {}, UpSampling3D);
}

}  // namespace meshwork

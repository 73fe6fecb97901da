#include "layers/resizing.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "layers/layer_of.h"
#include "layers/spatial.h"
#include "runtime/graph/operations/upsampling.h"
#include "runtime/graph/operations/zero_padding.h"

namespace meshwork {

template <class Visitor>
void describe(ResizingOptions& options, Visitor& option) {
  option.about("images resized to a given height and width");
  describe_name(options, option);
  option.required("height", options.height, length, "rows of the result");
  option.required("width", options.width, length, "columns of the result");
  option.choice("interpolation", options.interpolation,
                {{"bilinear", Interpolation::bilinear}, {"nearest", Interpolation::nearest}},
                "interpolate between pixels, or take the nearest one");
  option("crop_to_aspect_ratio", options.crop_to_aspect_ratio,
         "crop the largest central part with the result's proportions");
  option("pad_to_aspect_ratio", options.pad_to_aspect_ratio,
         "pad the image with zeros to the result's proportions");
}

namespace {

// Lengths as Keras rounds them: down, and the smaller border first.
std::vector<Border> borders_of(const ResizingOptions& of, const Shape& x) {
  std::vector<Border> borders;
  for (const std::int64_t d : {1, 2}) {
    const std::int64_t own = x[d], other = x[3 - d];
    const std::int64_t wanted =
        d == 1 ? other * of.height / of.width : other * of.width / of.height;
    if (of.crop_to_aspect_ratio) {
      const std::int64_t cut = own - std::clamp<std::int64_t>(wanted, 1, own);
      borders.push_back({-(cut / 2), -(cut - cut / 2)});
    } else {
      const std::int64_t border = std::max<std::int64_t>(wanted - own, 0) / 2;
      borders.push_back({border, border});
    }
  }
  return borders;
}

}  // namespace

SharedLayer Resizing(ResizingOptions options) {
  if (options.crop_to_aspect_ratio && options.pad_to_aspect_ratio) {
    fail(
        "{}: crop_to_aspect_ratio and pad_to_aspect_ratio are both given; there is one way to "
        "keep proportions",
        called(options.name, "Resizing"));
  }
  return layer_of("Resizing", std::move(options),
                  [](const ResizingOptions& of, LayerBuilder& builder, TensorId x) {
                    check_image(builder.shape(x), 2);
                    if (of.crop_to_aspect_ratio || of.pad_to_aspect_ratio) {
                      x = builder.apply(
                          std::make_unique<ZeroPaddingOperation>(borders_of(of, builder.shape(x))),
                          {x});
                    }
                    return builder.apply(std::make_unique<UpsamplingOperation>(
                                             std::vector{of.height, of.width}, of.interpolation,
                                             UpsamplingOperation::Sizes::lengths),
                                         {x});
                  });
}

void add_resizing(Catalog& catalog) {
  catalog.add<SharedLayer, ResizingOptions>("Resizing", {}, Resizing);
}

}  // namespace meshwork

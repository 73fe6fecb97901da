#include "layers/borders.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/joined_text.h"
#include "layers/layer_of.h"
#include "layers/spatial.h"
#include "runtime/graph/operations/windows.h"
#include "runtime/graph/operations/zero_padding.h"

namespace meshwork {
namespace {

Sides sides_from(const ConfigNode& node) {
  if (!node.is_sequence()) {
    return node.as<std::int64_t>(at_least(0));
  }
  const auto two = node.as<std::vector<std::int64_t>>(at_least(0));
  if (two.size() != 2) {
    node.fail("expected one length, or two for before and behind, found {}", two.size());
  }
  return {two[0], two[1]};
}

}  // namespace

template <std::size_t dimensions>
void from_config(const ConfigNode& node, Borders<dimensions>& borders) {
  if (dimensions == 1 || !node.is_sequence()) {
    borders.sides.fill(sides_from(node));
    return;
  }
  const std::vector<ConfigNode> all = node.elements();
  if (all.size() != dimensions) {
    node.fail("expected one border, or {}, found {}",
              dimensions == 2 ? "two for rows and columns" : "three for planes, rows and columns",
              all.size());
  }
  for (std::size_t d = 0; d < dimensions; ++d) borders.sides[d] = sides_from(all[d]);
}

template <std::size_t dimensions>
std::string to_text(const Borders<dimensions>& borders) {
  std::vector<std::string> texts;
  for (const Sides& sides : borders.sides) {
    texts.push_back(fmt::format("({}, {})", sides.before, sides.behind));
  }
  return dimensions == 1 ? texts[0] : fmt::format("({})", joined_text(texts, ", "));
}

template <std::size_t dimensions>
std::array<std::int64_t, 2 * dimensions> numbers_of(const Borders<dimensions>& borders) {
  std::array<std::int64_t, 2 * dimensions> numbers{};
  for (std::size_t d = 0; d < dimensions; ++d) {
    numbers[2 * d] = borders.sides[d].before;
    numbers[2 * d + 1] = borders.sides[d].behind;
  }
  return numbers;
}

template <std::size_t dimensions, class Visitor>
void describe_borders(const char* name, Borders<dimensions>& borders, Visitor& option) {
  option(name, borders, at_least(0).up_to(most_length),
         dimensions == 1 ? "width: one number, or (before, behind)"
                         : "width: one number, one a dimension, or (before, behind) a dimension");
}

template <std::size_t dimensions, class Visitor>
void describe(ZeroPaddingOptions<dimensions>& options, Visitor& option) {
  option.about("inputs with a border of zeros");
  describe_name(options, option);
  describe_borders("padding", options.padding, option);
}

template <std::size_t dimensions, class Visitor>
void describe(CroppingOptions<dimensions>& options, Visitor& option) {
  option.about("inputs without their border");
  describe_name(options, option);
  describe_borders("cropping", options.cropping, option);
}

template <class Visitor>
void describe(CenterCropOptions& options, Visitor& option) {
  option.about("the middle of images");
  describe_name(options, option);
  option.required("height", options.height, length, "rows to keep");
  option.required("width", options.width, length, "columns to keep");
}

namespace {

// Cropping is padding by less than nothing.
template <std::size_t dimensions>
TensorId bordered(LayerBuilder& builder, TensorId x, const Borders<dimensions>& of, int sign) {
  check_image(builder.shape(x), dimensions);
  std::vector<Border> borders;
  for (const Sides& sides : of.sides) {
    borders.push_back({sign * sides.before, sign * sides.behind});
  }
  return builder.apply(std::make_unique<ZeroPaddingOperation>(std::move(borders)), {x});
}

template <std::size_t dimensions>
SharedLayer zero_padding(ZeroPaddingOptions<dimensions> options) {
  return layer_of(fmt::format("ZeroPadding{}D", dimensions), std::move(options),
                  [](const ZeroPaddingOptions<dimensions>& of, LayerBuilder& builder, TensorId x) {
                    return bordered(builder, x, of.padding, 1);
                  });
}

template <std::size_t dimensions>
SharedLayer cropping(CroppingOptions<dimensions> options) {
  return layer_of(fmt::format("Cropping{}D", dimensions), std::move(options),
                  [](const CroppingOptions<dimensions>& of, LayerBuilder& builder, TensorId x) {
                    return bordered(builder, x, of.cropping, -1);
                  });
}

}  // namespace

SharedLayer ZeroPadding1D(ZeroPaddingOptions<1> options) {
  return zero_padding(std::move(options));
}
SharedLayer ZeroPadding2D(ZeroPaddingOptions<2> options) {
  return zero_padding(std::move(options));
}
SharedLayer ZeroPadding3D(ZeroPaddingOptions<3> options) {
  return zero_padding(std::move(options));
}
SharedLayer Cropping1D(CroppingOptions<1> options) {
  return cropping(std::move(options));
}
SharedLayer Cropping2D(CroppingOptions<2> options) {
  return cropping(std::move(options));
}
SharedLayer Cropping3D(CroppingOptions<3> options) {
  return cropping(std::move(options));
}

SharedLayer CenterCrop(CenterCropOptions options) {
  return layer_of(
      "CenterCrop", std::move(options),
      [](const CenterCropOptions& of, LayerBuilder& builder, TensorId x) {
        const Shape shape = builder.shape(x);
        check_image(shape, 2);
        const std::int64_t rows = shape[1] - of.height, columns = shape[2] - of.width;
        if (rows < 0 || columns < 0) {
          fail("expected images of at least {} x {}, found shape {}", of.height, of.width,
               to_string(shape));
        }
        return bordered(
            builder, x,
            Borders<2>({rows / 2, rows - rows / 2}, {columns / 2, columns - columns / 2}), -1);
      });
}

void add_borders(Catalog& catalog) {
  catalog.add<SharedLayer, ZeroPaddingOptions<1>>("ZeroPadding1D", {}, ZeroPadding1D);
  catalog.add<SharedLayer, ZeroPaddingOptions<2>>("ZeroPadding2D", {}, ZeroPadding2D);
  catalog.add<SharedLayer, ZeroPaddingOptions<3>>("ZeroPadding3D", {}, ZeroPadding3D);
  catalog.add<SharedLayer, CroppingOptions<1>>("Cropping1D", {}, Cropping1D);
  catalog.add<SharedLayer, CroppingOptions<2>>("Cropping2D", {}, Cropping2D);
  catalog.add<SharedLayer, CroppingOptions<3>>("Cropping3D", {}, Cropping3D);
  catalog.add<SharedLayer, CenterCropOptions>("CenterCrop", {}, CenterCrop);
}

}  // namespace meshwork

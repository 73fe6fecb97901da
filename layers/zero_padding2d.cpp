#include "layers/zero_padding2d.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "layers/layer_of.h"
#include "layers/spatial.h"
#include "runtime/graph/operations/windows.h"
#include "runtime/graph/operations/zero_padding.h"

namespace meshwork {
namespace {

ImageBorders::Pair pair_from(const ConfigNode& node) {
  if (!node.is_sequence()) {
    const auto both = node.as<std::int64_t>(at_least(0));
    return {both, both};
  }
  const auto two = node.as<std::vector<std::int64_t>>(at_least(0));
  if (two.size() != 2) {
    node.fail("expected one length, or two for before and behind, found {}", two.size());
  }
  return {two[0], two[1]};
}

}  // namespace

std::string to_text(const ImageBorders& borders) {
  return fmt::format("(({}, {}), ({}, {}))", borders.rows.before, borders.rows.behind,
                     borders.columns.before, borders.columns.behind);
}

std::array<std::int64_t, 4> numbers_of(const ImageBorders& borders) {
  return {borders.rows.before, borders.rows.behind, borders.columns.before, borders.columns.behind};
}

template <class Visitor>
void describe(ZeroPadding2DOptions& options, Visitor& option) {
  option.about("images with a border of zeros");
  describe_name(options, option);
  option("padding", options.padding, at_least(0).up_to(most_length),
         "width: one number, (rows, columns), or ((top, bottom), (left, right))");
}

void from_config(const ConfigNode& node, ImageBorders& borders) {
  if (!node.is_sequence()) {
    borders = node.as<std::int64_t>(at_least(0));
    return;
  }
  const std::vector<ConfigNode> both = node.elements();
  if (both.size() != 2) {
    node.fail("expected one border, or two for rows and columns, found {}", both.size());
  }
  borders = {pair_from(both[0]), pair_from(both[1])};
}

SharedLayer ZeroPadding2D(ZeroPadding2DOptions options) {
  return layer_of("ZeroPadding2D", std::move(options),
                  [](const ZeroPadding2DOptions& of, LayerBuilder& builder, TensorId x) {
                    check_image(builder.shape(x), 2);
                    const auto& [rows, columns] = of.padding;
                    return builder.apply(
                        std::make_unique<ZeroPaddingOperation>(std::vector<Border>{
                            {rows.before, rows.behind}, {columns.before, columns.behind}}),
                        {x});
                  });
}

void add_zero_padding2d(Catalog& catalog) {
  catalog.add<SharedLayer, ZeroPadding2DOptions>("ZeroPadding2D", {}, ZeroPadding2D);
}

}  // namespace meshwork

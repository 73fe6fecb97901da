#include "layers/zero_padding2d.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "layers/one_input.h"
#include "layers/spatial.h"
#include "runtime/graph/layer_config.h"
#include "runtime/graph/operations/windows.h"
#include "runtime/graph/operations/zero_padding.h"

namespace meshwork {
namespace {

class ZeroPadding2DLayer final : public Layer {
 public:
  explicit ZeroPadding2DLayer(ZeroPadding2DOptions options)
      : Layer(std::move(options.name)), borders_(options.padding) {}

  std::string class_name() const override { return "ZeroPadding2D"; }

  TensorId build(LayerBuilder& builder, std::span<const TensorId> inputs) const override {
    const TensorId x = one_input(inputs);
    check_image(builder.shape(x), 2);
    return builder.apply(std::make_unique<ZeroPaddingOperation>(std::vector<Border>{
                             {borders_.rows.before, borders_.rows.behind},
                             {borders_.columns.before, borders_.columns.behind}}),
                         {x});
  }

 private:
  ImageBorders borders_;
};

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
  const ImageBorders& borders = options.padding;
  const auto [least, most] = std::minmax(
      {borders.rows.before, borders.rows.behind, borders.columns.before, borders.columns.behind});
  if (least < 0 || most > most_length) {
    fail("{}: `padding` is (({}, {}), ({}, {})); {}", called(options.name, "ZeroPadding2D"),
         borders.rows.before, borders.rows.behind, borders.columns.before, borders.columns.behind,
         least < 0 ? "none of it may be negative" : fmt::format("{} is the most", most_length));
  }
  return SharedLayer(std::make_shared<ZeroPadding2DLayer>(std::move(options)));
}

SharedLayer zero_padding2d_from_config(const ConfigNode& node, const LayerRegistry&) {
  ZeroPadding2DOptions options;
  ConfigReader reader = layer_reader(node, options.name);
  reader.optional("padding", options.padding);
  reader.finish();
  return ZeroPadding2D(std::move(options));
}

}  // namespace meshwork

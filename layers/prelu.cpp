#include "layers/prelu.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "collectives/joined_text.h"
#include "layers/layer_of.h"
#include "runtime/graph/operations/slope.h"

namespace meshwork {

template <class Visitor>
void describe(PReLUOptions& options, Visitor& option) {
  option.about("x where x > 0, else alpha * x, with a learned alpha");
  describe_name(options, option);
  describe_variable(option, "alpha", "alpha", options.alpha_initializer, options.alpha_regularizer,
                    options.alpha_constraint);
  option("shared_axes", options.shared_axes, positive,
         "dimensions that share an alpha: none or the first, as [1, 2] of images");
  option("trainable", options.trainable, "train alpha; false: keep it fixed");
}

SharedLayer PReLU(PReLUOptions options) {
  for (std::size_t i = 0; i < options.shared_axes.size(); ++i) {
    if (options.shared_axes[i] != static_cast<std::int64_t>(i) + 1) {
      fail("{}: shared_axes: expected the first of the dimensions 1, 2, ..., found [{}]",
           called(options.name, "PReLU"), joined_text(options.shared_axes, ", "));
    }
  }
  return layer_of(
      "PReLU", std::move(options), [](const PReLUOptions& of, LayerBuilder& builder, TensorId x) {
        Shape alpha = builder.shape(x);
        alpha.erase(alpha.begin());
        const std::size_t shared = of.shared_axes.size();
        if (shared >= alpha.size()) {
          fail("`shared_axes` [{}] leave an input of shape {} no dimension of its own",
               joined_text(of.shared_axes, ", "), to_string(builder.shape(x)));
        }
        std::fill_n(alpha.begin(), shared, 1);
        const TensorId variable = builder.variable("alpha", {.shape = alpha,
                                                             .initializer = of.alpha_initializer,
                                                             .regularizer = of.alpha_regularizer,
                                                             .constraint = of.alpha_constraint});
        return builder.apply(std::make_unique<SlopeOperation>(shared), {x, variable});
      });
}

void add_prelu(Catalog& catalog) {
  catalog.add<SharedLayer, PReLUOptions>("PReLU", {}, PReLU);
}

}  // namespace meshwork

#include "runtime/train/optimizers/nadam.h"

#include "runtime/device/kernels/nadam.h"
#include "runtime/train/optimizers/make.h"

namespace meshwork {

template <class Visitor>
void describe(NadamOptions& options, Visitor& option) {
  option.about("Adam with Nesterov's momentum");
  describe_common(options, option);
  describe_moments(options, option);
}

Optimizer Nadam(const NadamOptions& options) {
  Optimizer optimizer = make_optimizer(
      "Nadam", options, {{"m"}, {.name = "v", .not_negative = true}},
      NadamSpec{.beta_1 = options.beta_1, .beta_2 = options.beta_2, .epsilon = options.epsilon});
  // Keras keeps the product.
  optimizer.set_keras_number([beta_1 = options.beta_1](std::int64_t iteration) {
    return nadam_product(beta_1, static_cast<double>(iteration));
  });
  return optimizer;
}

void add_nadam(Catalog& catalog) {
  catalog.add<Optimizer, NadamOptions>("Nadam", {"nadam"}, Nadam);
}

}  // namespace meshwork

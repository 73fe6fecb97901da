#include "runtime/train/losses/huber.h"

#include "runtime/config/float_range.h"
#include "runtime/train/from_config.h"
#include "runtime/train/losses/function_loss.h"

namespace meshwork {

template <class Visitor>
void describe(HuberOptions& options, Visitor& option) {
  option.about("quadratic for small errors, linear for large ones");
  option("delta", options.delta, float_positive, "error at which the parabola becomes a line");
  option("name", options.name, "name in the logs");
}

SharedLoss Huber(const HuberOptions& options) {
  check_options("Huber", options);
  return make_function_loss(options.name, "huber",
                            HuberFunction{static_cast<float>(options.delta)});
}

void add_huber(Catalog& catalog) {
  catalog.add<SharedLoss, HuberOptions>("Huber", {"huber"}, Huber);
}

}  // namespace meshwork

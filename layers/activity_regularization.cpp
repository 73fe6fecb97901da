#include "layers/activity_regularization.h"

#include <memory>
#include <utility>

#include "layers/layer_of.h"
#include "runtime/graph/operations/activity_penalty.h"

namespace meshwork {

template <class Visitor>
void describe(ActivityRegularizationOptions& options, Visitor& option) {
  option.about("its input; the loss gets a penalty on its size, averaged over samples");
  describe_name(options, option);
  option("l1", options.l1, finite_not_negative, "factor of the sum of absolute values");
  option("l2", options.l2, finite_not_negative, "factor of the sum of squares");
}

SharedLayer ActivityRegularization(ActivityRegularizationOptions options) {
  return layer_of("ActivityRegularization", std::move(options),
                  [](const ActivityRegularizationOptions& of, LayerBuilder& builder, TensorId x) {
                    return builder.apply(std::make_unique<ActivityPenaltyOperation>(
                                             ActivityPenalty{.l1 = of.l1, .l2 = of.l2}),
                                         {x});
                  });
}

void add_activity_regularization(Catalog& catalog) {
  catalog.add<SharedLayer, ActivityRegularizationOptions>("ActivityRegularization", {},
                                                          ActivityRegularization);
}

}  // namespace meshwork

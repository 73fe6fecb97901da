#include "runtime/train/strategies/fully_sharded_data_parallel.h"

#include <algorithm>

#include "runtime/config/options.h"
#include "runtime/shape/shape.h"

namespace meshwork {
template <class Visitor>
void describe(FullyShardedOptions& options, Visitor& option) {
  option.about("weights are split over the ranks that split batches, and gathered for use");
  option("axis", options.axis, "axis that splits weights; none: the axis of batches");
  option("min_elements", options.min_elements, at_least(0), "smaller variables stay whole");
}

namespace {

class FullyShardedStrategy final : public Strategy {
 public:
  explicit FullyShardedStrategy(FullyShardedOptions options) : options_(std::move(options)) {}

  std::string name() const override { return "FullyShardedDataParallel"; }

  LayoutMap layouts(const Graph& model, const MeshShape& mesh,
                    std::optional<Axis> batch_axis) const override {
    const Axis axis = axis_of_strategy(name(), mesh, options_.axis, batch_axis);
    const std::int64_t ranks = mesh.axes()[static_cast<std::size_t>(axis)].size;
    LayoutMap layouts(mesh);
    for (const Variable& variable : model.variables) {
      const Shape& shape = variable.options.shape;
      if (!variable.options.trainable || shape.empty()) continue;
      if (element_count(shape) < options_.min_elements) continue;
      auto dimension =
          std::ranges::find_if(shape, [&](std::int64_t length) { return length % ranks == 0; });
      if (dimension == shape.end()) dimension = std::ranges::max_element(shape);
      layouts.insert(variable.path, split_by(mesh, axis, shape.size(),
                                             static_cast<std::size_t>(dimension - shape.begin())));
    }
    return layouts;
  }

 private:
  FullyShardedOptions options_;
};

}  // namespace

Distribution FullyShardedDataParallel(DeviceMesh& mesh, const FullyShardedOptions& options,
                                      const DistributionOptions& distribution) {
  return spread_by(mesh, fully_sharded(options), distribution);
}

SharedStrategy fully_sharded(const FullyShardedOptions& options) {
  check_options("FullyShardedDataParallel", options);
  return std::make_shared<const FullyShardedStrategy>(options);
}

void add_fully_sharded_data_parallel(Catalog& catalog) {
  catalog.add<SharedStrategy, FullyShardedOptions>("FullyShardedDataParallel", {}, fully_sharded);
}

}  // namespace meshwork

// Strategy: a way to spread any model, as a function from its variables and tensors to layouts.
//
// A strategy sees the graph of the layers: paths, shapes, and the letters of each operation
// (runtime/graph/operation.h). It gives a map of layouts. All else follows from the map by the rules
// that hold for layouts that a user writes: a strategy has no code in planner or kernels.
//
//     distribution: {FullyShardedDataParallel: {min_elements: 4096}}
//     layout: {head/kernel: [~, model]}          # what a user writes goes before
//
// A strategy is a class of the catalog. One of one's own is a page of an extension:
//
//     catalog.add<SharedStrategy, MineOptions>("Mine", {}, [](const MineOptions& options) {
//       return std::make_shared<const Mine>(options);
//     });
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/config/catalog.h"
#include "runtime/graph/graph.h"
#include "runtime/mesh/layout_map.h"

namespace meshwork {

class Strategy {
 public:
  virtual ~Strategy() = default;
  /// Its class, for messages.
  [[nodiscard]] virtual std::string name() const = 0;
  /// Layouts over `mesh`, of which `batch_axis` splits batches, by paths or patterns of `model`.
  /// What it does not name is as the planner finds best; a variable is then whole on every rank.
  /// Throws `Error` for a mesh that does not fit.
  [[nodiscard]] virtual LayoutMap layouts(const Graph& model, const MeshShape& mesh,
                                          std::optional<Axis> batch_axis) const = 0;
};
using SharedStrategy = std::shared_ptr<const Strategy>;  // null: DataParallel

template <>
struct KindOf<SharedStrategy> {
  static constexpr const char* word = "distribution";
  static constexpr const char* article = "a distribution, such as FullyShardedDataParallel";
};
[[nodiscard]] std::string to_text(const SharedStrategy& strategy);

/// `layouts`, and those of `strategy`, which may be null, for paths of `model` that no key of it
/// matches. Throws `Error` as the strategy does.
[[nodiscard]] LayoutMap with_strategy(LayoutMap layouts, const SharedStrategy& strategy,
                                      const Graph& model, std::optional<Axis> batch_axis);

/// The axis `name` of `mesh`, or `otherwise` without a name. Throws `Error` that begins with `who`:
/// no such axis, or none at all.
[[nodiscard]] Axis axis_of_strategy(const std::string& who, const MeshShape& mesh,
                                    const std::optional<std::string>& name,
                                    std::optional<Axis> otherwise);

/// The layout of a tensor of `dimensions` dimensions whose `dimension` `axis` splits.
[[nodiscard]] TensorLayout split_by(const MeshShape& mesh, Axis axis, std::size_t dimensions,
                                    std::size_t dimension);

}  // namespace meshwork

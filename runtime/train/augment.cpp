#include "runtime/train/augment.h"

#include "collectives/error.h"
#include "collectives/with_type.h"

namespace meshwork {

void check_augment(const std::vector<SharedMixing>& stages, const Objective& objective) {
  const Graph& graph = *objective.graph;
  for (const SharedMixing& stage : stages) {
    const std::string name = stage->class_name();
    for (const TensorId id : graph.inputs) {
      const GraphTensor& input = graph.tensors[id];
      if (is_integer(input.type) || graph.classes_of(id) > 0) {
        fail("{} blends values, and those of input \"{}\" are whole numbers", name, input.path);
      }
      if (stage->cuts_images() && input.shape.size() != 4) {
        fail(
            "{} cuts images (height, width, channels), and samples of input \"{}\" have the shape "
            "{}",
            name, input.path, to_string(Shape(input.shape.begin() + 1, input.shape.end())));
      }
    }
    for (const TensorId id : objective.targets) {
      const GraphTensor& target = graph.tensors[id];
      if (is_integer(target.type)) {
        fail(
            "{} blends targets, and \"{}\" are class numbers; take a loss of a value for each "
            "class, "
            "such as CategoricalCrossentropy, and `data: {{one_hot: true}}` (from C++, "
            "with_one_hot)",
            name, target.path);
      }
    }
  }
}

}  // namespace meshwork

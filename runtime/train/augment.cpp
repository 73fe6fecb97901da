#include "runtime/train/augment.h"

#include <algorithm>

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
    const Shape& image = graph.tensors[graph.inputs.front()].shape;
    if (const std::optional<Shape>& weights = objective.data.weights;
        weights && element_count(*weights) > 1) {
      fail("{} mixes samples, but not their weights, of which each has {}; one is expected", name,
           to_string(*weights));
    }
    for (const TensorId id : objective.targets) {
      const GraphTensor& target = graph.tensors[id];
      const Shape places(target.shape.begin() + 1, target.shape.end());
      if (stage->cuts_images() && places.size() >= 2 &&
          !std::equal(places.begin(), places.begin() + 2, image.begin() + 1)) {
        fail(
            "{} cuts images, and \"{}\" of shape {} is not of the same height and width; a target "
            "is a mask of the image's size, or values of the whole",
            name, target.path, to_string(places));
      }
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

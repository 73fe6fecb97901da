// Layers that cut and move images: numbers against plain loops, and what is drawn.
#include "layers/borders.h"
#include "layers/identity.h"
#include "tests/support/graph_runner.h"

namespace meshwork::augmentation_test {

using namespace meshwork::test;

namespace {

struct Run {
  std::vector<double> y, dx;
};

/// On `x`, with the gradient `dy`; without `dy`, outside training.
Run run_layer(const SharedLayer& layer, const Tensor& x, const Tensor& dy, bool training = true) {
  const auto input = Input(Shape(x.shape.begin() + 1, x.shape.end()));
  const Graph graph = make_graph({input}, {layer(input)});
  const GraphValues found =
      run_graph(graph, {.inputs = {x}, .output_gradients = {dy}, .training = training});
  return {found.values.at(graph.outputs[0]).values, found.gradients.at(graph.inputs[0]).values};
}

}  // namespace

TEST_CASE("the middle of an image is cut out, its larger border below and at the right") {
  const Tensor x = random_tensor({2, 7, 5, 3}, 1);
  const Tensor dy = random_tensor({2, 4, 4, 3}, 2);
  const Run found = run_layer(CenterCrop({.height = 4, .width = 4}), x, dy);
  // Keras: rows from 3 // 2 on, columns from 1 // 2 on.
  for (std::size_t i = 0; i < found.y.size(); ++i) {
    const std::size_t channel = i % 3, column = i / 3 % 4, row = i / 12 % 4, sample = i / 48;
    REQUIRE(found.y[i] == x.values[((sample * 7 + row + 1) * 5 + column) * 3 + channel]);
    REQUIRE(found.dx[((sample * 7 + row + 1) * 5 + column) * 3 + channel] == dy.values[i]);
  }
}

TEST_CASE("the identity gives its input and its gradient") {
  const Tensor x = random_tensor({2, 3}, 1), dy = random_tensor({2, 3}, 2);
  const Run found = run_layer(Identity(), x, dy);
  CHECK(found.y == x.values);
  CHECK(found.dx == dy.values);
}

}  // namespace meshwork::augmentation_test

// GroupNormalization and LayerNormalization against a reference in double precision.
#include "layers/group_normalization.h"

#include <cmath>

#include "collectives/error.h"
#include "layers/initializers/ones.h"
#include "layers/layer_normalization.h"
#include "tests/support/graph_runner.h"

namespace meshwork::group_normalization_test {

using namespace meshwork::test;

namespace {

/// Of x (batch, places, channels): channels of a group normalized together, at all places or at each.
Tensor reference(const Tensor& x, std::int64_t groups, bool each_place, const Tensor& gamma,
                 const Tensor& beta) {
  const std::int64_t batch = x.shape[0], places = x.shape[1], channels = x.shape[2];
  const std::int64_t together = each_place ? 1 : places, of_group = channels / groups;
  Tensor y(x.shape);
  for (std::int64_t n = 0; n < batch; ++n) {
    for (std::int64_t from = 0; from < places; from += together) {
      for (std::int64_t g = 0; g < groups; ++g) {
        const auto for_each = [&](const auto& visit) {
          for (std::int64_t p = from; p < from + together; ++p) {
            for (std::int64_t c = g * of_group; c < (g + 1) * of_group; ++c) {
              visit((n * places + p) * channels + c, c);
            }
          }
        };
        const double count = static_cast<double>(together * of_group);
        double mean = 0, variance = 0;
        for_each([&](auto i, auto) { mean += x.values[i] / count; });
        for_each([&](auto i, auto) { variance += std::pow(x.values[i] - mean, 2) / count; });
        for_each([&](auto i, auto c) {
          y.values[i] =
              (x.values[i] - mean) / std::sqrt(variance + 0.001) * gamma.values[c] + beta.values[c];
        });
      }
    }
  }
  return y;
}

void check_layer(const SharedLayer& layer, std::int64_t groups, bool each_place) {
  const auto input = Input({4, 6});
  const Graph graph = make_graph({input}, {layer(input)});
  REQUIRE(graph.variables.size() == 2);
  CHECK(graph.variables[0].path == "layer/gamma");
  CHECK(graph.variables[1].path == "layer/beta");
  CHECK(graph.variables[0].options.initializer == Ones());
  const GraphCase what{.inputs = {random_tensor({3, 4, 6}, 1, 3, 5)},
                       .variables = {random_tensor({6}, 2), random_tensor({6}, 3)},
                       .output_gradients = {random_tensor({3, 4, 6}, 4)}};
  CHECK(difference(
            run_graph(graph, what).values.at(graph.outputs[0]),
            reference(what.inputs[0], groups, each_place, what.variables[0], what.variables[1]),
            3e-6) == "");
  check_graph_gradients(graph, what);
}

}  // namespace

TEST_CASE("groups of channels are normalized at all places of a sample") {
  for (const std::int64_t groups : {1, 2, 3, 6}) {
    check_layer(GroupNormalization({.name = "layer", .groups = groups}), groups, false);
  }
  check_layer(GroupNormalization({.name = "layer", .groups = -1}), 6, false);
}

TEST_CASE("the channels of a place are normalized together") {
  check_layer(LayerNormalization({.name = "layer"}), 1, true);
}

TEST_CASE("gamma and beta can be left out, and images and vectors be normalized") {
  const auto image = Input({2, 3, 4});
  const Graph graph = make_graph(
      {image}, {GroupNormalization({.groups = 2, .center = false, .scale = false})(image)});
  CHECK(graph.variables.empty());
  CHECK(GroupNormalization({.groups = 2})(Input({4})).shape() == Shape{-1, 4});
  CHECK(LayerNormalization()(Input({2, 3, 4})).shape() == Shape{-1, 2, 3, 4});
}

TEST_CASE("groups that do not fit are errors that name the layer") {
  CHECK_THROWS_WITH(GroupNormalization({.name = "g"})(Input({5, 6})),
                    "g: an input of shape (batch, 5, 6) has 6 channels, which `groups` 32 does not "
                    "divide");
  CHECK_THROWS_WITH(GroupNormalization({.groups = 0}),
                    "GroupNormalization: groups: expected a positive integer, or -1 for a group a "
                    "channel, found 0");
  CHECK_THROWS_WITH(LayerNormalization({.axis = 1}), Catch::Contains("axis: expected -1"));
  CHECK_THROWS_WITH(LayerNormalization({.epsilon = 0}), Catch::Contains("epsilon: expected"));
}

}  // namespace meshwork::group_normalization_test

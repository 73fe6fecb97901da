// A layer that is called twice: each call finds what the one before wrote, however its variables
// lie on the mesh.
#include <cmath>
#include <utility>

#include "layers/add.h"
#include "layers/batch_normalization.h"
#include "layers/dense.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/one_rank.h"

namespace meshwork::shared_layers_test {

using namespace meshwork::test;

namespace {

constexpr std::int64_t rows = 12, channels = 4;

// Mean and variance of one channel.
std::pair<double, double> statistics(const std::vector<float>& values, std::int64_t channel) {
  double mean = 0, variance = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    mean += static_cast<double>(values[r * channels + channel]) / rows;
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    variance +=
        std::pow(static_cast<double>(values[r * channels + channel]) - mean, 2) / double{rows};
  }
  return {mean, variance};
}

}  // namespace

TEST_CASE("the moving statistics of a normalization called twice follow both calls, in order") {
  const int ranks = Communicator::world().size();
  std::vector<float> first(rows * channels), second(rows * channels);
  for (std::size_t i = 0; i < first.size(); ++i) {
    const auto channel = static_cast<float>(i % channels);
    first[i] = 1 + channel + std::sin(static_cast<float>(i));
    second[i] = 10 * (1 + channel) + 2 * std::cos(static_cast<float>(i));
  }
  for (const std::string split :
       {"", "norm/moving_mean", "norm/moving_variance", "norm/moving.*", "norm/gamma"}) {
    for (const std::string batch_axis : {"x", ""}) {
      INFO("split: " << split << ", batch axis: " << batch_axis);
      DeviceMesh mesh({{"x", ranks}});
      LayoutMap layouts(mesh);
      if (!split.empty()) layouts[split] = {"x"};
      const auto a = Input({channels}, "a"), b = Input({channels}, "b");
      const auto norm = BatchNormalization({.name = "norm", .momentum = 0.5});
      const auto sum = Add()(std::vector<SymbolicTensor>{norm(a), norm(b)});
      const auto y = Dense({.name = "out", .units = 1})(sum);
      Model model({a, b}, {y}, ModelParallel(mesh, layouts, {.batch_axis = batch_axis}),
                  {.check_plan = true});
      model.compile({.loss = MeanSquaredError(), .optimizer = SGD({.learning_rate = 0})});
      (void)model.train_step({rows, {first, second}, {std::vector<float>(rows, 0)}});
      const std::vector<float> mean = model.variable("norm/moving_mean");
      const std::vector<float> variance = model.variable("norm/moving_variance");
      // moving = moving * momentum + batch * (1 - momentum), from 0 and 1, by the first call and
      // then by the second (keras.layers.BatchNormalization).
      for (std::int64_t c = 0; c < channels; ++c) {
        const auto [mean_1, variance_1] = statistics(first, c);
        const auto [mean_2, variance_2] = statistics(second, c);
        CHECK(std::abs(static_cast<double>(mean[c]) - (mean_1 * 0.25 + mean_2 * 0.5)) < 1e-4);
        CHECK(std::abs(static_cast<double>(variance[c]) -
                       (0.25 + variance_1 * 0.25 + variance_2 * 0.5)) < 1e-4);
      }
    }
  }
}

}  // namespace meshwork::shared_layers_test

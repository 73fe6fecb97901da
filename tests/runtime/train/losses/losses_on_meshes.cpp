// Losses that are functions, on every mesh: what a model loses and where its weights end are as on
// one rank, with batches split and with the last dimension of predictions split, over more ranks
// than it has values too.
#include <cstdint>
#include <string>
#include <vector>

#include "layers/activation.h"
#include "layers/dense.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/train/losses/cosine_similarity.h"
#include "runtime/train/losses/focal_crossentropy.h"
#include "runtime/train/losses/hinge.h"
#include "runtime/train/losses/huber.h"
#include "runtime/train/losses/kl_divergence.h"
#include "runtime/train/losses/log_cosh.h"
#include "runtime/train/losses/mean_absolute_percentage_error.h"
#include "runtime/train/losses/mean_squared_logarithmic_error.h"
#include "runtime/train/losses/overlap.h"
#include "runtime/train/losses/poisson.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/one_rank.h"

namespace meshwork::losses_on_meshes_test {

using namespace meshwork::test;

namespace {

constexpr std::int64_t rows = 5, features = 4, outputs = 3;

struct Outcome {
  std::vector<Logs> logs;
  std::vector<std::vector<float>> weights;
};

// The loss is a metric too; samples have weights if it is `weighted`.
Outcome trained(DeviceMesh& mesh, const LayoutEntries& layouts, const SharedLoss& loss,
                Activation activation, bool weighted) {
  const auto input = Input({features});
  Model model(input, Dense({.name = "d", .units = outputs, .activation = activation})(input),
              spread_over(mesh, layouts), {.seed = 5, .check_plan = true});
  model.compile({.loss = loss, .optimizer = SGD({.learning_rate = 0.1}), .metrics = {loss}});
  Outcome outcome;
  for (unsigned step = 0; step < 3; ++step) {
    const std::vector<float> x = random_floats(rows * features, 10 + step);
    const std::vector<float> t = random_floats(rows * outputs, 30 + step, 0.1, 1);
    const std::vector<float> w = random_floats(rows, 50 + step, 0, 2);
    outcome.logs.push_back(
        weighted ? model.train_step({.rows = rows, .inputs = {x}, .targets = {t}, .weights = w})
                 : model.train_step({.rows = rows, .inputs = {x}, .targets = {t}}));
  }
  outcome.weights = variables_of(model);
  return outcome;
}

}  // namespace

TEST_CASE("losses that are functions train on every mesh as on one rank") {
  const int ranks = Communicator::world().size();
  const auto split = [](const char* batch) {
    return LayoutEntries{
        {"d/kernel", {unsharded, "model"}}, {"d/bias", {"model"}}, {"d/output", {batch, "model"}}};
  };
  std::vector<std::pair<std::vector<MeshAxis>, LayoutEntries>> spreads{
      {{{"data", ranks}, {"model", 1}}, {}}, {{{"data", 1}, {"model", ranks}}, split("data")}};
  if (ranks % 2 == 0) spreads.push_back({{{"data", ranks / 2}, {"model", 2}}, split("data")});
  const std::vector<std::pair<SharedLoss, Activation>> losses{
      {Huber({.delta = 0.5}), Activation::linear},
      {LogCosh(), Activation::linear},
      {MeanAbsolutePercentageError(), Activation::linear},
      {MeanSquaredLogarithmicError(), Activation::sigmoid},
      {Poisson(), Activation::sigmoid},
      {KLDivergence(), Activation::sigmoid},
      {Hinge(), Activation::linear},
      {SquaredHinge(), Activation::linear},
      {CategoricalHinge(), Activation::linear},
      {CosineSimilarity(), Activation::linear},
      {BinaryFocalCrossentropy(), Activation::sigmoid},
      {CategoricalFocalCrossentropy(), Activation::sigmoid},
      {CategoricalFocalCrossentropy({.from_logits = true}), Activation::linear},
      {Dice({.axis = {{1}}}), Activation::sigmoid},
      {Dice(), Activation::sigmoid},
      {Tversky({.alpha = 0.3, .axis = {{0}}}), Activation::sigmoid}};
  for (const auto& [loss, activation] : losses) {
    const bool weighted = loss != losses.back().first && loss != losses[losses.size() - 2].first;
    DeviceMesh one = alone();
    const Outcome expected = trained(one, {}, loss, activation, weighted);
    for (const auto& [axes, layouts] : spreads) {
      DeviceMesh mesh(axes);
      INFO(loss->name() << ", " << to_string(layouts) << " on " << to_string(mesh.shape()));
      const Outcome found = trained(mesh, layouts, loss, activation, weighted);
      // Sums of 15 values of float32 in another order, over three steps.
      for (std::size_t step = 0; step < 3; ++step) {
        CHECK(difference(found.logs[step], expected.logs[step], 1e-5) == "");
      }
      for (std::size_t v = 0; v < found.weights.size(); ++v) {
        CHECK(difference(found.weights[v], expected.weights[v], 1e-5) == "");
      }
    }
  }
}

}  // namespace meshwork::losses_on_meshes_test

// Running means of weights: what fit ends with, what validation sees, and how a run goes on.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "collectives/exchange.h"
#include "layers/activation.h"
#include "layers/dense.h"
#include "runtime/train/callbacks/swap_ema_weights.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/optimizers/adam.h"
#include "runtime/train/optimizers/lamb.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/one_rank.h"

namespace meshwork::moving_averages_test {

using namespace meshwork::test;

namespace {

constexpr std::int64_t batch = 4, batches = 5, rows = batch * batches, features = 6, outputs = 3;
constexpr double momentum = 0.75;

std::shared_ptr<const Source> samples() {
  return std::make_shared<ArraySource>(std::vector<Array>{
      Array("x", random_floats(rows * features, 1), {rows, features}),
      Array("t", random_floats(rows * outputs, 2), {rows, outputs}, FieldRole::target)});
}

Model network(DeviceMesh& mesh, const LayoutEntries& layouts, const Optimizer& optimizer) {
  const auto input = Input({features});
  auto y = Dense({.name = "d1", .units = 8, .activation = Activation::tanh})(input);
  y = Dense({.name = "d2", .units = outputs})(y);
  Model model(input, y, spread_over(mesh, layouts), {.seed = 5, .check_plan = true});
  model.compile({.loss = MeanSquaredError(), .optimizer = optimizer});
  return model;
}

FitOptions in_order(std::int64_t epochs) {
  return {.epochs = epochs, .batch_size = batch, .shuffle = false, .verbose = Verbosity::silent};
}

// The weights after each update.
class Trajectory final : public Callback {
 public:
  explicit Trajectory(Model& model) : model_(model) {}
  std::string class_name() const override { return "Trajectory"; }
  bool decides_alike() const override { return true; }
  void on_train_batch_end(Training&) override { weights.push_back(variables_of(model_)); }
  std::vector<std::vector<std::vector<float>>> weights;

 private:
  Model& model_;
};

// What the means become along `weights`.
std::vector<std::vector<float>> means_of(
    const std::vector<std::vector<std::vector<float>>>& weights) {
  std::vector<std::vector<float>> means = weights.front();
  for (std::size_t step = 1; step < weights.size(); ++step) {
    for (std::size_t v = 0; v < means.size(); ++v) {
      for (std::size_t i = 0; i < means[v].size(); ++i) {
        means[v][i] = static_cast<float>(momentum * static_cast<double>(means[v][i]) +
                                         (1 - momentum) * static_cast<double>(weights[step][v][i]));
      }
    }
  }
  return means;
}

void check_near(const std::vector<std::vector<float>>& found,
                const std::vector<std::vector<float>>& expected, double tolerance) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t v = 0; v < found.size(); ++v) {
    CHECK(difference(found[v], expected[v], tolerance) == "");
  }
}

std::filesystem::path empty_folder(const DeviceMesh& mesh, const std::string& name) {
  const std::filesystem::path folder = std::filesystem::current_path() / name;
  check_mpi(MPI_Barrier(mesh.all().native()), "MPI_Barrier");
  if (mesh.rank() == 0) std::filesystem::remove_all(folder);
  check_mpi(MPI_Barrier(mesh.all().native()), "MPI_Barrier");
  return folder;
}

const LayoutEntries split{
    {"d1/kernel", {unsharded, "data"}}, {"d1/bias", {"data"}}, {"d2/kernel", {"data", unsharded}}};

}  // namespace

TEST_CASE("fit ends with the running means of the weights, and validation has them if asked to") {
  DeviceMesh mesh({{"data", -1}});
  Model plain = network(mesh, {}, SGD({.learning_rate = 0.5}));
  const auto trajectory = std::make_shared<Trajectory>(plain);
  FitOptions options = in_order(2);
  options.callbacks = {trajectory};
  options.validation = samples();
  const History of_weights = plain.fit(samples(), options);

  for (const bool swapped : {false, true}) {
    Model model =
        network(mesh, {}, SGD({.learning_rate = 0.5, .ema = {.use = true, .momentum = momentum}}));
    FitOptions own = in_order(2);
    own.validation = samples();
    if (swapped) own.callbacks = {SwapEMAWeights()};
    const History history = model.fit(samples(), own);
    check_near(variables_of(model), means_of(trajectory->weights), 1e-6);
    const double of_means = *model.evaluate(samples(), {.batch_size = batch}).find("loss");
    const auto& validated = history.history.at("val_loss");
    const auto& weighed = of_weights.history.at("val_loss");
    CHECK(std::abs(of_means - weighed.back()) > 1e-4);  // else they could not be told apart
    CHECK(validated.back() == Approx(swapped ? of_means : weighed.back()).epsilon(1e-6));
    CHECK(history.history.at("loss").back() ==
          Approx(of_weights.history.at("loss").back()).epsilon(1e-6));
  }
}

TEST_CASE("weights become their means every so many updates") {
  DeviceMesh mesh({{"data", -1}});
  Model model =
      network(mesh, {},
              SGD({.learning_rate = 0.5,
                   .ema = {.use = true, .momentum = momentum, .overwrite_frequency = 3}}));
  const auto step = [&](unsigned seed) {
    const std::vector<float> x = random_floats(batch * features, 10 + seed);
    const std::vector<float> t = random_floats(batch * outputs, 30 + seed);
    (void)model.train_step({.rows = batch, .inputs = {x}, .targets = {t}});
    return variables_of(model);
  };
  Model plain = network(mesh, {}, SGD({.learning_rate = 0.5}));
  std::vector<std::vector<std::vector<float>>> weights;
  for (unsigned i = 0; i < 3; ++i) {
    const std::vector<float> x = random_floats(batch * features, 10 + i);
    const std::vector<float> t = random_floats(batch * outputs, 30 + i);
    (void)plain.train_step({.rows = batch, .inputs = {x}, .targets = {t}});
    weights.push_back(variables_of(plain));
  }
  check_near(step(0), weights[0], 1e-6);
  check_near(step(1), weights[1], 1e-6);
  check_near(step(2), means_of(weights), 1e-6);
}

TEST_CASE("running means are those of one rank on every mesh") {
  const MovingAverage ema{.use = true, .momentum = momentum, .overwrite_frequency = 4};
  for (const Optimizer& optimizer :
       {Adam({.learning_rate = 0.01, .ema = ema}), Lamb({.learning_rate = 0.01, .ema = ema}),
        SGD({.learning_rate = 0.1, .momentum = 0.9, .clipnorm = 0.1, .ema = ema})}) {
    const auto ended = [&](DeviceMesh& mesh, const LayoutEntries& layouts) {
      Model model = network(mesh, layouts, optimizer);
      FitOptions options = in_order(2);
      options.validation = samples();
      options.callbacks = {SwapEMAWeights({.swap_on_epoch = true})};
      (void)model.fit(samples(), std::move(options));
      return variables_of(model);
    };
    DeviceMesh one = alone(), mesh({{"data", -1}});
    const auto expected = ended(one, {});
    for (const LayoutEntries& layouts : {LayoutEntries(), split}) {
      INFO(optimizer.class_name() << ", " << to_string(layouts));
      check_near(ended(mesh, layouts), expected, 2e-5);  // rounding, over ten steps
    }
  }
}

TEST_CASE("a run that ended with its means goes on as one that did not end") {
  DeviceMesh mesh({{"data", -1}});
  const Optimizer optimizer =
      Adam({.learning_rate = 0.01, .ema = {.use = true, .momentum = momentum}});
  for (const bool on_epoch : {false, true}) {
    const std::filesystem::path folder = empty_folder(mesh, "means");
    const auto trained = [&](std::int64_t epochs, bool saved) {
      Model model = network(mesh, split, optimizer);
      FitOptions options = in_order(epochs);
      options.callbacks = {SwapEMAWeights({.swap_on_epoch = on_epoch})};
      if (saved) options.checkpoint = {.directory = folder, .resume = Resume::automatic};
      (void)model.fit(samples(), std::move(options));
      return variables_of(model);
    };
    const auto straight = trained(4, false);
    const auto half = trained(2, true);
    CHECK(trained(2, true) == half);
    CHECK(trained(4, true) == straight);
  }
}

TEST_CASE("SwapEMAWeights needs an optimizer that keeps means") {
  DeviceMesh mesh({{"data", -1}});
  Model model = network(mesh, {}, SGD());
  FitOptions options = in_order(1);
  options.callbacks = {SwapEMAWeights()};
  CHECK_THROWS_WITH(model.fit(samples(), std::move(options)),
                    Catch::Contains("set use_ema: true in the optimizer"));
}

}  // namespace meshwork::moving_averages_test

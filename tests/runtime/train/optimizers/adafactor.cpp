// Adafactor against Keras 3.15's own numbers, with variables whole and split in every way.
#include "runtime/train/optimizers/adafactor.h"

#include <cstdint>
#include <string>
#include <vector>

#include "layers/dense.h"
#include "layers/einsum_dense.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "tests/support/one_rank.h"

namespace meshwork::adafactor_test {

using namespace meshwork::test;

namespace {

// A layer one of whose variables alone makes the predictions: gradients are 2 / (number of targets)
// times its difference to the targets.
struct Subject {
  SharedLayer layer;
  std::string variable;
  std::size_t dimensions;
  Shape sample;
  std::vector<float> features, start, targets;
};

const std::vector<float> six{0.5f, -0.25f, 1, 0.75f, 0.3f, -0.6f};
const std::vector<float> targets_of_six{0.1f, 0.4f, 0.2f, -0.3f, 0.8f, 0.5f};

Subject matrix() {
  return {.layer = Dense({.name = "d", .units = 3, .use_bias = false}),
          .variable = "d/kernel",
          .dimensions = 2,
          .sample = {2},
          .features = {1, 0, 0, 1},
          .start = six,
          .targets = targets_of_six};
}

Subject vector() {
  return {.layer = Dense({.name = "d", .units = 3}),
          .variable = "d/bias",
          .dimensions = 1,
          .sample = {2},
          .features = {0, 0},
          .start = {six.begin(), six.begin() + 3},
          .targets = {targets_of_six.begin(), targets_of_six.begin() + 3}};
}

// Two matrices, of which the second begins at the first's negative.
Subject two_matrices() {
  Subject two{.layer = EinsumDense({.name = "d", .equation = "bij,ijk->bk", .output_shape = {3}}),
              .variable = "d/kernel",
              .dimensions = 3,
              .sample = {2, 2},
              .features = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1},
              .start = six,
              .targets = targets_of_six};
  for (const float value : six) two.start.push_back(-value);
  two.targets.insert(two.targets.end(), targets_of_six.begin(), targets_of_six.end());
  return two;
}

// After three steps.
std::vector<float> stepped(DeviceMesh& mesh, const LayoutEntries& layouts, const Subject& of,
                           const AdafactorOptions& options) {
  const auto input = Input(of.sample);
  Model model(input, of.layer(input), spread_over(mesh, layouts), {.check_plan = true});
  model.compile({.loss = MeanSquaredError(), .optimizer = Adafactor(options)});
  model.set_variable(of.variable, of.start);
  const std::int64_t rows = std::ssize(of.features) / element_count(of.sample);
  for (int step = 0; step < 3; ++step) {
    (void)model.train_step({.rows = rows, .inputs = {of.features}, .targets = {of.targets}});
  }
  return model.variable(of.variable);
}

void check(const Subject& of, const AdafactorOptions& options, const std::vector<float>& keras) {
  const int ranks = Communicator::world().size();
  DeviceMesh mesh(std::vector<MeshAxis>{{"data", 1}, {"model", ranks}});
  // Means are summed in another order than Keras's.
  constexpr double tolerance = 2e-6;
  CHECK(difference(stepped(mesh, {}, of, options), keras, tolerance) == "");
  for (std::size_t d = 0; d < of.dimensions; ++d) {
    TensorLayout layout(of.dimensions);
    layout[d] = "model";
    INFO("dimension " << d << " of " << of.variable << " is split over " << ranks);
    CHECK(difference(stepped(mesh, {{of.variable, layout}}, of, options), keras, tolerance) == "");
  }
}

}  // namespace

TEST_CASE("Adafactor takes the steps that Keras takes, whatever the layout") {
  check(matrix(), {.learning_rate = 0.1},
        {0.3965519070625305f, -0.022704631090164185f, 0.8267759084701538f, 0.5603687763214111f,
         0.4236866235733032f, -0.43460744619369507f});
  // The rate falls as 1 / sqrt(t).
  check(matrix(),
        {.learning_rate = 2, .beta_2_decay = -0.5, .clip_threshold = 0.5, .weight_decay = 0.1},
        {0.10434815287590027f, 0.2520644962787628f, 0.24146711826324463f, 0.045299679040908813f,
         0.41978296637535095f, 0.005955420434474945f});
  check(matrix(), {.learning_rate = 0.9, .epsilon_2 = 3},
        {0.015870511531829834f, 0.34303224086761475f, 0.14920765161514282f, -0.8962979316711426f,
         0.8185255527496338f, 0.8199923038482666f});
  check(vector(), {.learning_rate = 0.1},
        {0.33163321018218994f, -0.07577770948410034f, 0.8241680264472961f});
  check(two_matrices(), {.learning_rate = 0.1},
        {0.3964693546295166f, -0.02252352237701416f, 0.8266360759735107f, 0.5602181553840637f,
         0.423786997795105f, -0.4344756007194519f, -0.32465705275535583f, 0.2802089750766754f,
         -0.7777217030525208f, -0.6023741364479065f, -0.04997161775827408f, 0.5790759921073914f});
}

TEST_CASE("rows and columns without a gradient stay, where Keras divides 0 by 0") {
  Subject of = matrix();
  of.features = {1, 0};
  of.targets = {0.1f, -0.25f, 0.2f};
  const int ranks = Communicator::world().size();
  DeviceMesh mesh(std::vector<MeshAxis>{{"data", 1}, {"model", ranks}});
  const std::vector<float> found = stepped(mesh, {}, of, {.learning_rate = 0.1});
  CHECK(found[0] < of.start[0]);
  for (const std::size_t still : {1, 3, 4, 5}) CHECK(found[still] == of.start[still]);
}

TEST_CASE("options of Adafactor have ranges") {
  CHECK_THROWS_WITH(Adafactor({.beta_2_decay = 0.5}),
                    Catch::Contains("Adafactor: beta_2_decay: expected a finite number of at most "
                                    "0, found 0.5"));
  CHECK_THROWS_WITH(Adafactor({.clip_threshold = 0}), Catch::Contains("clip_threshold"));
}

}  // namespace meshwork::adafactor_test

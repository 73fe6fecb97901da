// Circle loss: Keras's own numbers, numerical gradients, and batches split over ranks.
#include "runtime/train/losses/circle.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "layers/dense.h"
#include "layers/unit_normalization.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/runtime/train/comparison_cases.h"
#include "tests/support/one_rank.h"

namespace meshwork::circle_test {

using namespace meshwork::test;

namespace {

// Six vectors of length 1; the last is alone with its label.
Tensor vectors() {
  Tensor x({6, 3});
  for (int i = 0; i < 6; ++i) {
    double squares = 0;
    for (int j = 0; j < 3; ++j) {
      const double value = (i * 7 + j * 5) % 11 - 5;
      x.values[3 * i + j] = value;
      squares += value * value;
    }
    for (int j = 0; j < 3; ++j) {
      x.values[3 * i + j] = static_cast<float>(x.values[3 * i + j] / std::sqrt(squares));
    }
  }
  return x;
}
Tensor labels() {
  return {{6}, {7, 2, 7, 2, 2, 9}};
}

OperationCase weighted_case() {
  OperationCase what = training_case(vectors(), labels());
  what.inputs.push_back({{6}, {1, 2, 0.5, 0, 1, 3}});
  what.wanted.push_back(false);
  return what;
}

void check_keras(const CircleOptions& options, double mean, double weighted,
                 const Values& gradient) {
  const SharedLoss loss = Circle(options);
  CHECK(mean_of(*loss, vectors(), labels()) == Approx(mean).epsilon(1e-6));
  CHECK(difference(gradient_of(*loss, vectors(), labels()), Tensor({6, 3}, gradient), 2e-6) == "");
  CHECK(run_whole(*loss->weighted_operation({6, 3}, {6}, {6}), weighted_case()).output.values[0] /
            6 ==
        Approx(weighted).epsilon(1e-6));
}

}  // namespace

TEST_CASE("the circle loss, its gradient and its weights are those of Keras 3.15") {
  check_keras({}, 58.05015563964844, 37.605072021484375,
              {30.499914169311523, -44.62958526611328, 47.08185577392578, -4.2938551902771,
               1.1202749013900757, -5.788569450378418, 35.138824462890625, 11.29228687286377,
               -74.66183471679688, -11.56508731842041, 50.103187561035156, -1.9410098791122437,
               -33.620216369628906, 6.886983871459961, -28.362594604492188, -12.307037353515625,
               19.447368621826172, -20.105241775512695});
  check_keras({.gamma = 4, .margin = 0.25}, 4.542459011077881, 3.488452911376953,
              {1.4491491317749023, -2.1317977905273438, 2.3079261779785156, -0.2872464060783386,
               0.11284204572439194, -0.38526952266693115, 1.8341712951660156, 0.5112892389297485,
               -3.6236836910247803, -0.49014168977737427, 2.1444664001464844, -0.16854271292686462,
               -1.2925889492034912, 0.30640870332717896, -1.178795576095581, -0.5500786304473877,
               0.8805328607559204, -0.9174761772155762});
  check_keras({.gamma = 4, .margin = 0.25, .remove_diagonal = false}, 4.412292003631592,
              4.651957035064697,
              {1.2024590969085693, -1.766319751739502, 1.9161663055419922, -0.17642690241336823,
               0.07561015337705612, -0.27417710423469543, 0.9183412790298462, 0.8256393671035767,
               -3.808079242706299, -0.3449746370315552, 1.5727256536483765, -0.12353658676147461,
               -0.9591559171676636, 0.2266860008239746, -0.889171838760376, -0.9141044020652771,
               1.421900749206543, -1.4557301998138428});
}

TEST_CASE("the gradient of the circle loss agrees with differences, weighted or not") {
  const SharedLoss loss = Circle({.gamma = 2, .margin = 0.3});
  const auto check = [](const Operation& operation, const OperationCase& what) {
    const Tensor found = *run_whole(operation, what).gradients[0];
    constexpr double step = 1e-2, samples = 6;
    Tensor expected(found.shape);
    OperationCase moved{.inputs = what.inputs};
    for (std::size_t i = 0; i < expected.values.size(); ++i) {
      double& value = moved.inputs[0].values[i];
      const double middle = value;
      const auto mean_at = [&](double place) {
        value = place;
        return run_whole(operation, moved).output.values[0] / samples;
      };
      expected.values[i] = (mean_at(middle + step) - mean_at(middle - step)) / (2 * step);
      value = middle;
    }
    CHECK(difference(found, expected, 3e-3) == "");
  };
  check(*operation_of(*loss, vectors(), labels()), training_case(vectors(), labels()));
  check(*loss->weighted_operation({6, 3}, {6}, {6}), weighted_case());
}

TEST_CASE("a batch without pairs loses nothing, and a NaN stays one") {
  const SharedLoss loss = Circle();
  const Tensor apart{{2}, {1, 2}};
  const Tensor two({2, 2}, {1, 0, 0.6, 0.8});
  CHECK(mean_of(*loss, two, apart) == 0);
  CHECK(gradient_of(*loss, two, apart).values == Values{0, 0, 0, 0});
  Tensor broken = vectors();
  broken.values[4] = std::nan("");
  CHECK(std::isnan(mean_of(*loss, broken, labels())));
}

TEST_CASE("labels that are no whole numbers are an error, not cut to some") {
  DeviceMesh mesh = alone();
  const auto input = Input({2});
  Model model(input, UnitNormalization({.name = "unit"})(input), spread_over(mesh));
  model.compile({.loss = Circle(), .optimizer = SGD()});
  const std::vector<float> x{1, 2, 3, 4}, t{1, 0.5f};
  CHECK_THROWS_WITH(model.train_step({.rows = 2, .inputs = {x}, .targets = {t}}),
                    Catch::Contains("sample 1: 0.5 is no whole number"));
}

TEST_CASE("the circle loss of a batch that is split is that of one rank") {
  const int ranks = Communicator::world().size();
  constexpr std::int64_t rows = 7, features = 4, length = 5;
  const auto trained = [&](DeviceMesh& mesh, const LayoutEntries& layouts, bool weighted) {
    const auto input = Input({features});
    auto y = Dense({.name = "d", .units = length})(input);
    y = UnitNormalization({.name = "unit"})(y);
    Model model(input, y, spread_over(mesh, layouts), {.seed = 5, .check_plan = true});
    model.compile({.loss = Circle({.gamma = 8}), .optimizer = SGD({.learning_rate = 0.02})});
    std::vector<std::vector<float>> found;
    for (unsigned step = 0; step < 3; ++step) {
      const std::vector<float> x = random_floats(rows * features, 10 + step);
      const std::vector<float> w = random_floats(rows, 50 + step, 0, 2);
      const std::vector<float> t{0, 900, 2, 0, 2, 2, 900};
      const Logs logs =
          weighted ? model.train_step({.rows = rows, .inputs = {x}, .targets = {t}, .weights = w})
                   : model.train_step({.rows = rows, .inputs = {x}, .targets = {t}});
      found.push_back({static_cast<float>(logs.at("loss"))});
    }
    for (const std::vector<float>& variable : variables_of(model)) found.push_back(variable);
    return found;
  };
  const LayoutEntries split{{"d/kernel", {unsharded, "model"}}, {"d/bias", {"model"}}};
  for (const bool weighted : {false, true}) {
    DeviceMesh one = alone();
    const auto expected = trained(one, {}, weighted);
    for (const auto& [axes, layouts] : std::vector<std::pair<std::vector<MeshAxis>, LayoutEntries>>{
             {{{"data", ranks}, {"model", 1}}, {}}, {{{"data", 1}, {"model", ranks}}, split}}) {
      DeviceMesh mesh(axes);
      INFO(to_string(layouts) << " on " << to_string(mesh.shape()));
      const auto found = trained(mesh, layouts, weighted);
      REQUIRE(found.size() == expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        CHECK(difference(found[i], expected[i], 1e-5) == "");
      }
    }
  }
}

TEST_CASE("predictions and options that the circle loss does not take are errors") {
  CHECK_THROWS_WITH(Circle({.gamma = 0}), Catch::Contains("Circle: gamma: expected a positive"));
  CHECK_THROWS_WITH(Circle()->operation({6, 3}, {6, 3}),
                    Catch::Contains("expected a whole number for each sample as targets"));
  const auto operation = Circle()->operation({6, 2, 3}, {6, 2});
  CHECK_THROWS_WITH(operation->output_shape(std::vector<Shape>{{6, 2, 3}, {6, 2}}),
                    Catch::Contains("compares vectors, (batch, features)"));
}

}  // namespace meshwork::circle_test

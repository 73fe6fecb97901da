// The loop of fit: epochs, batches, callbacks and what is logged, with numbers worked out by hand.
//
// The model is y = w x for one feature, without bias; with w = 0 the squared error of a sample is
// the square of its target, so means can be read off the targets.
#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "layers/dense.h"
#include "layers/initializers/zeros.h"
#include "runtime/train/callbacks/early_stopping.h"
#include "runtime/train/callbacks/learning_rate_scheduler.h"
#include "runtime/train/losses/mean_absolute_error.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/one_rank.h"

namespace meshwork::training_loop_test {

using namespace meshwork::test;

namespace {

// x = 1 and the target 1, 2, 3, ... for each sample.
std::shared_ptr<const Source> counting_samples(std::int64_t rows, float first = 1) {
  std::vector<float> ones(static_cast<std::size_t>(rows), 1.0f);
  std::vector<float> targets(static_cast<std::size_t>(rows));
  std::iota(targets.begin(), targets.end(), first);
  std::vector<Array> arrays{Array("x", std::move(ones), {rows, 1}),
                            Array("t", std::move(targets), {rows, 1}, FieldRole::target)};
  return std::make_shared<ArraySource>(std::move(arrays));
}

// y = w x, with w = 0.
Model line(DeviceMesh& mesh, const Optimizer& optimizer, SharedLoss loss = MeanSquaredError()) {
  const auto x = Input({1});
  Model model(
      x, Dense({.name = "line", .units = 1, .use_bias = false, .kernel_initializer = Zeros()})(x),
      DataParallel(mesh));
  model.compile({.loss = std::move(loss), .optimizer = optimizer});
  return model;
}

Optimizer still() {
  return SGD({.learning_rate = 0.0});
}

double sum_of_squares(std::int64_t first, std::int64_t last) {
  double sum = 0;
  for (std::int64_t i = first; i <= last; ++i) {
    sum += static_cast<double>(i * i);
  }
  return sum;
}

// A callback made of one function for the end of batches and one for the end of epochs.
class Doing final : public Callback {
 public:
  using Action = std::function<void(Training&)>;
  Doing(Action batch_end, Action epoch_end)
      : batch_end_(std::move(batch_end)), epoch_end_(std::move(epoch_end)) {}
  std::string class_name() const override { return "Doing"; }
  void on_train_batch_end(Training& training) override {
    if (batch_end_) batch_end_(training);
  }
  void on_epoch_end(Training& training) override {
    if (epoch_end_) epoch_end_(training);
  }

 private:
  Action batch_end_, epoch_end_;
};

SharedCallback at_epoch_end(Doing::Action action) {
  return std::make_shared<Doing>(nullptr, std::move(action));
}
SharedCallback at_batch_end(Doing::Action action) {
  return std::make_shared<Doing>(std::move(action), nullptr);
}

// Writes down every event with the epoch or batch.
class Recorder final : public Callback {
 public:
  std::vector<std::string> events;
  std::string class_name() const override { return "Recorder"; }
  void on_train_begin(Training&) override { events.emplace_back("train<"); }
  void on_train_end(Training&) override { events.emplace_back("train>"); }
  void on_epoch_begin(Training& t) override { add("epoch<", t.position().epoch); }
  void on_epoch_end(Training& t) override { add("epoch>", t.position().epoch); }
  void on_train_batch_begin(Training& t) override { add("batch<", t.position().batch); }
  void on_train_batch_end(Training& t) override { add("batch>", t.position().batch); }
  void on_test_begin(Training&) override { events.emplace_back("test<"); }
  void on_test_end(Training&) override { events.emplace_back("test>"); }
  void on_test_batch_begin(Training& t) override { add("test batch<", t.position().batch); }
  void on_test_batch_end(Training& t) override { add("test batch>", t.position().batch); }

 private:
  void add(const std::string& event, std::int64_t number) {
    events.push_back(event + std::to_string(number));
  }
};

using Strings = std::vector<std::string>;

}  // namespace

TEST_CASE("callbacks see the events in order") {
  DeviceMesh mesh({{"data", -1}});
  Model model = line(mesh, still());
  const auto recorder = std::make_shared<Recorder>();
  (void)model.fit(counting_samples(17), {.epochs = 2,
                                         .batch_size = 8,
                                         .validation = counting_samples(9),
                                         .validation_freq = 2,
                                         .callbacks = {recorder},
                                         .verbose = Verbosity::silent});
  CHECK(recorder->events == Strings{"train<",       "epoch<0",      "batch<0",      "batch>0",
                                    "batch<1",      "batch>1",      "batch<2",      "batch>2",
                                    "epoch>0",      "epoch<1",      "batch<0",      "batch>0",
                                    "batch<1",      "batch>1",      "batch<2",      "batch>2",
                                    "test<",        "test batch<0", "test batch>0", "test batch<1",
                                    "test batch>1", "test>",        "epoch>1",      "train>"});
}

TEST_CASE("a short last batch weighs by its rows, in training and in validation") {
  DeviceMesh mesh({{"data", -1}});
  Model model = line(mesh, still());
  // Batches of 8, 8 and 1; the mean of batch means would be (25.5 + 157.5 + 289) / 3.
  const History history = model.fit(
      counting_samples(17),
      {.batch_size = 8, .validation = counting_samples(9, 10), .verbose = Verbosity::silent});
  CHECK(history.at("loss") == std::vector<double>{sum_of_squares(1, 17) / 17});
  CHECK(history.at("val_loss") == std::vector<double>{sum_of_squares(10, 18) / 9});
  CHECK(model.evaluate(counting_samples(17), {.batch_size = 8}).at("loss") ==
        sum_of_squares(1, 17) / 17);
}

TEST_CASE("logs are the running means of an epoch, and begin anew with each") {
  DeviceMesh mesh({{"data", -1}});
  Model model = line(mesh, still());
  std::vector<double> losses;
  (void)model.fit(
      counting_samples(17),
      {.epochs = 2,
       .batch_size = 8,
       .shuffle = false,
       .callbacks = {at_batch_end([&](Training& t) { losses.push_back(t.logs().at("loss")); })},
       .verbose = Verbosity::silent});
  const std::vector<double> epoch{sum_of_squares(1, 8) / 8, sum_of_squares(1, 16) / 16,
                                  sum_of_squares(1, 17) / 17};
  std::vector<double> both = epoch;
  both.insert(both.end(), epoch.begin(), epoch.end());
  CHECK(losses == both);
}

TEST_CASE("the history has a value an epoch for each name, and the epochs' numbers") {
  DeviceMesh mesh({{"data", -1}});
  Model model = line(mesh, still());
  model.compile(
      {.loss = MeanSquaredError(), .optimizer = still(), .metrics = {MeanAbsoluteError()}});
  const History history = model.fit(counting_samples(17), {.epochs = 3,
                                                           .batch_size = 8,
                                                           .validation = counting_samples(9),
                                                           .validation_freq = 2,
                                                           .verbose = Verbosity::silent});
  CHECK(history.epoch == std::vector<std::int64_t>{0, 1, 2});
  CHECK(history.params.epochs == 3);
  CHECK(history.params.steps == 3);
  std::map<std::string, std::size_t> lengths;
  for (const auto& [name, values] : history.history) {
    lengths[name] = values.size();
  }
  CHECK(lengths == std::map<std::string, std::size_t>{{"loss", 3},
                                                      {"mean_absolute_error", 3},
                                                      {"val_loss", 1},
                                                      {"val_mean_absolute_error", 1}});
  CHECK(history.at("mean_absolute_error").front() == Approx(9));
}

TEST_CASE("a validation split takes the last part, before any shuffling") {
  DeviceMesh mesh({{"data", -1}});
  Model model = line(mesh, still());
  const History history =
      model.fit(counting_samples(64),
                {.batch_size = 8, .validation_split = 0.25, .verbose = Verbosity::silent});
  CHECK(history.at("loss").front() == Approx(sum_of_squares(1, 48) / 48));
  CHECK(history.at("val_loss").front() == Approx(sum_of_squares(49, 64) / 16));
}

TEST_CASE("steps_per_epoch ends an epoch early, and the next begins at its own first batch") {
  DeviceMesh mesh({{"data", -1}});
  for (const bool prefetch : {true, false}) {
    Model model = line(mesh, still());
    const History history = model.fit(counting_samples(64), {.epochs = 3,
                                                             .batch_size = 8,
                                                             .shuffle = false,
                                                             .steps_per_epoch = 2,
                                                             .verbose = Verbosity::silent,
                                                             .prefetch = prefetch});
    CHECK(history.at("loss") == std::vector<double>(3, sum_of_squares(1, 16) / 16));
    CHECK(model.iteration() == 6);
  }
}

TEST_CASE("training goes from the initial epoch to the last, and shuffles as it would have") {
  DeviceMesh mesh({{"data", -1}});
  const auto firsts = [&](std::int64_t initial) {
    Model model = line(mesh, still());
    std::vector<double> losses;
    const History history =
        model.fit(counting_samples(64), {.epochs = 4,
                                         .batch_size = 8,
                                         .initial_epoch = initial,
                                         .callbacks = {at_batch_end([&](Training& t) {
                                           if (t.position().epoch >= 2 && t.position().batch == 0) {
                                             losses.push_back(t.logs().at("loss"));
                                           }
                                         })},
                                         .verbose = Verbosity::silent});
    CHECK(history.epoch.front() == initial);
    CHECK(history.epoch.back() == 3);
    return losses;
  };
  const std::vector<double> continued = firsts(2);
  REQUIRE(continued.size() == 2);
  CHECK(continued == firsts(0));
  CHECK(continued[0] != continued[1]);
}

TEST_CASE("a stop inside an epoch ends it after the batch, with validation and its end") {
  DeviceMesh mesh({{"data", -1}});
  Model model = line(mesh, still());
  const auto recorder = std::make_shared<Recorder>();
  const History history =
      model.fit(counting_samples(64), {.epochs = 5,
                                       .batch_size = 8,
                                       .validation = counting_samples(8),
                                       .shuffle = false,
                                       .callbacks = {recorder, at_batch_end([](Training& t) {
                                                       if (t.position().batch == 1) t.stop();
                                                     })},
                                       .verbose = Verbosity::silent});
  CHECK(model.iteration() == 2);
  CHECK(history.at("loss") == std::vector<double>{sum_of_squares(1, 16) / 16});
  CHECK(history.at("val_loss").size() == 1);
  CHECK(recorder->events == Strings{"train<", "epoch<0", "batch<0", "batch>0", "batch<1", "batch>1",
                                    "test<", "test batch<0", "test batch>0", "test>", "epoch>0",
                                    "train>"});
}

TEST_CASE("early stopping restores the best weights, and the run that ended there has them too") {
  DeviceMesh mesh({{"data", -1}});
  // The rate 1.1 overshoots: |w - mean| grows by 1.2 a step, so the first epoch is the best.
  const auto train = [&](std::int64_t epochs, bool stopping) {
    Model model = line(mesh, SGD({.learning_rate = 1.1}));
    const std::vector<float> start{1.0f};
    model.set_variable("line/kernel", start);
    FitOptions options{.epochs = epochs,
                       .batch_size = 8,
                       .validation = counting_samples(8),
                       .shuffle = false,
                       .verbose = Verbosity::silent};
    if (stopping) {
      options.callbacks = {EarlyStopping({.patience = 2, .restore_best_weights = true})};
    }
    const History history = model.fit(counting_samples(16), options);
    return std::pair{model.variable("line/kernel"), history.epoch.size()};
  };
  const auto [restored, epochs] = train(20, true);
  CHECK(epochs == 3);
  CHECK(restored == train(1, false).first);
}

TEST_CASE("a decision of rank 0 is everybody's by agree, at the end of batches too") {
  DeviceMesh mesh({{"data", -1}});
  Model model = line(mesh, still());
  const History history =
      model.fit(counting_samples(64), {.epochs = 5,
                                       .batch_size = 8,
                                       .callbacks = {at_batch_end([](Training& t) {
                                         // Every rank would decide otherwise.
                                         std::vector<double> decision{
                                             t.is_root() ? double(t.position().batch == 2) : 1.0};
                                         t.agree(decision);
                                         if (decision[0] != 0) t.stop();
                                       })},
                                       .verbose = Verbosity::silent});
  CHECK(history.epoch.size() == 1);
  CHECK(model.iteration() == 3);
}

TEST_CASE("at the end of an epoch a decision that was not shared is rank 0's") {
  DeviceMesh mesh({{"data", -1}});
  for (const bool root : {true, false}) {
    Model model = line(mesh, still());
    const History history =
        model.fit(counting_samples(16), {.epochs = 4,
                                         .batch_size = 8,
                                         .callbacks = {at_epoch_end([root](Training& t) {
                                           if (t.is_root() == root) {
                                             t.set_learning_rate(0.25 + double(t.is_root()));
                                             t.stop();
                                           }
                                         })},
                                         .verbose = Verbosity::silent});
    const bool stopped = root;
    CHECK(history.epoch.size() == (stopped ? 1u : 4u));
    CHECK(model.optimizer().learning_rate(0) == (stopped ? 1.25 : 0.0));
  }
}

TEST_CASE("the step uses the rate of its schedule, and of its scheduler") {
  DeviceMesh mesh({{"data", -1}});
  // |w - t| has the derivative -1 in w for w far below t: w is the sum of the rates.
  const auto rates = [](std::int64_t iteration) { return static_cast<double>(iteration + 1); };
  Model scheduled =
      line(mesh, SGD({.learning_rate = Schedule("steps", rates)}), MeanAbsoluteError());
  std::vector<double> seen;
  (void)scheduled.fit(
      counting_samples(16, 1000),
      {.epochs = 2,
       .batch_size = 8,
       .callbacks = {at_batch_end([&](Training& t) { seen.push_back(t.learning_rate()); })},
       .verbose = Verbosity::silent});
  CHECK(scheduled.variable("line/kernel") == std::vector<float>{1 + 2 + 3 + 4});
  CHECK(seen == std::vector<double>{2, 3, 4, 5});  // of the next update

  Model by_epoch = line(mesh, SGD({.learning_rate = 1.0}), MeanAbsoluteError());
  (void)by_epoch.fit(counting_samples(16, 1000),
                     {.epochs = 2,
                      .batch_size = 8,
                      .callbacks = {LearningRateScheduler({[](std::int64_t epoch, double rate) {
                        return rate + static_cast<double>(epoch);
                      }})},
                      .verbose = Verbosity::silent});
  CHECK(by_epoch.variable("line/kernel") == std::vector<float>{1 + 1 + 2 + 2});
}

TEST_CASE("the position counts batches, samples and updates") {
  DeviceMesh mesh({{"data", -1}});
  Model model = line(mesh, still());
  std::vector<std::array<std::int64_t, 4>> seen;
  (void)model.fit(counting_samples(17),
                  {.epochs = 2,
                   .batch_size = 8,
                   .callbacks = {at_batch_end([&](Training& t) {
                     const TrainingPosition& p = t.position();
                     seen.push_back({p.epoch, p.batch, p.iteration, p.samples});
                   })},
                   .verbose = Verbosity::silent});
  CHECK(
      seen ==
      std::vector<std::array<std::int64_t, 4>>{
          {0, 0, 1, 8}, {0, 1, 2, 16}, {0, 2, 3, 17}, {1, 0, 4, 8}, {1, 1, 5, 16}, {1, 2, 6, 17}});
}

TEST_CASE("what cannot be trained on is an error that says why") {
  DeviceMesh mesh({{"data", -1}});
  Model model = line(mesh, still());
  const auto fit = [&](FitOptions options) {
    options.verbose = Verbosity::silent;
    return model.fit(counting_samples(17), std::move(options));
  };
  CHECK_THROWS_WITH(fit({.batch_size = 18}), Catch::Contains("batch_size 18 is larger"));
  CHECK_THROWS_WITH(fit({.epochs = 0, .batch_size = 8}), Catch::Contains("epochs"));
  CHECK_THROWS_WITH(fit({.batch_size = 8, .steps_per_epoch = 0}),
                    Catch::Contains("steps_per_epoch"));
  CHECK_THROWS_WITH(fit({.batch_size = 8, .validation_freq = 0}),
                    Catch::Contains("validation_freq"));
  CHECK_THROWS_WITH(
      fit({.batch_size = 8, .validation = counting_samples(9), .validation_split = 0.5}),
      Catch::Contains("not both"));
  if (mesh.shape().rank_count() > 1) {
    CHECK_THROWS_WITH(fit({.batch_size = 1}), Catch::Contains("gives no row to some of the") &&
                                                  Catch::Contains("\"data\""));
  }
  const auto x = Input({1});
  Model raw(x, Dense({.units = 1})(x), DataParallel(mesh));
  CHECK_THROWS_WITH(raw.fit(counting_samples(8), {.batch_size = 8}), Catch::Contains("compile"));
}

}  // namespace meshwork::training_loop_test

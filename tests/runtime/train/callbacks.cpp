// Callbacks: scripted logs, and the decisions that Keras's callbacks (keras/src/callbacks) make on
// them.
#include "runtime/train/callbacks/callback.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/train/callbacks/early_stopping.h"
#include "runtime/train/callbacks/learning_rate_scheduler.h"
#include "runtime/train/callbacks/reduce_lr_on_plateau.h"
#include "runtime/train/callbacks/sample_text.h"
#include "runtime/train/callbacks/terminate_on_nan.h"
#include "runtime/train/reporting/history.h"
#include "tests/runtime/train/scripted_training.h"
#include "tests/support/catch.h"

namespace meshwork::callbacks_test {

using namespace meshwork::test;

namespace {

const double no_number = std::numeric_limits<double>::quiet_NaN();

// In how many epochs a run with these values ends.
std::size_t epochs_run(const EarlyStoppingOptions& options, const std::vector<double>& values) {
  ScriptedTraining training({"loss", options.monitor}, {EarlyStopping(options)});
  training.run(epochs_of(options.monitor, values));
  return training.ended.size();
}

// Writes down the events that reach it.
class Recorder final : public Callback {
 public:
  Recorder(std::string name, std::vector<std::string>& events)
      : name_(std::move(name)), events_(&events) {}
  std::string class_name() const override { return "Recorder"; }
  void on_train_begin(Training&) override { note("train begin"); }
  void on_train_end(Training&) override { note("train end"); }
  void on_epoch_begin(Training&) override { note("epoch begin"); }
  void on_epoch_end(Training& training) override {
    note("epoch end");
    training.logs().set("from " + name_, static_cast<double>(training.logs().size()));
  }
  void on_train_batch_begin(Training&) override { note("batch begin"); }
  void on_train_batch_end(Training&) override { note("batch end"); }
  void on_test_begin(Training&) override { note("test begin"); }
  void on_test_end(Training&) override { note("test end"); }
  void on_test_batch_begin(Training&) override { note("test batch begin"); }
  void on_test_batch_end(Training&) override { note("test batch end"); }

 private:
  void note(const std::string& event) { events_->push_back(name_ + ": " + event); }
  std::string name_;
  std::vector<std::string>* events_;
};

}  // namespace

TEST_CASE("a list passes every event to its callbacks in their order, with shared logs") {
  std::vector<std::string> events;
  const auto a = std::make_shared<Recorder>("a", events);
  const auto b = std::make_shared<Recorder>("b", events);
  ScriptedTraining training({"loss"}, {a, b});
  training.run(epochs_of("loss", {1}));
  CHECK(events == std::vector<std::string>{"a: train begin", "b: train begin", "a: epoch begin",
                                           "b: epoch begin", "a: batch begin", "b: batch begin",
                                           "a: batch end", "b: batch end", "a: epoch end",
                                           "b: epoch end", "a: train end", "b: train end"});
  CHECK(training.ended[0].at("from a") == 1);
  CHECK(training.ended[0].at("from b") == 2);
  events.clear();
  const CallbackList list({a, b});
  list.call(&Callback::on_test_begin, training);
  list.call(&Callback::on_test_batch_begin, training);
  list.call(&Callback::on_test_batch_end, training);
  list.call(&Callback::on_test_end, training);
  CHECK(events == std::vector<std::string>{"a: test begin", "b: test begin", "a: test batch begin",
                                           "b: test batch begin", "a: test batch end",
                                           "b: test batch end", "a: test end", "b: test end"});
}

TEST_CASE("early stopping ends after as many epochs without an improvement as its patience") {
  // Patience 2: better in epochs 0, 1, 3; not in 4 and 5.
  CHECK(epochs_run({.patience = 2}, {5, 4, 4.5, 3, 3, 3.5, 1, 1}) == 6);
  // Patience 0 ends at the first epoch that is not better.
  CHECK(epochs_run({}, {5, 4, 4, 3}) == 3);
  CHECK(epochs_run({.patience = 3}, {5, 4, 3, 2}) == 4);
}

TEST_CASE("early stopping never ends at the first epoch") {
  // Values that are no improvement let wait reach the patience at epoch 0 already.
  CHECK(epochs_run({.patience = 0}, {no_number, no_number, no_number}) == 2);
  CHECK(epochs_run({.patience = 1}, {no_number, no_number, no_number}) == 2);
}

TEST_CASE("early stopping asks for more than min_delta") {
  CHECK(epochs_run({.min_delta = 0.5, .patience = 1}, {5, 4.6, 3, 3}) == 2);
  CHECK(epochs_run({.min_delta = 0.5, .patience = 1}, {5, 4.5, 3, 3}) == 2);
  CHECK(epochs_run({.min_delta = -0.5, .patience = 1}, {5, 4.4, 4, 3}) == 3);
}

TEST_CASE("early stopping follows the direction of what it monitors, or of its mode") {
  CHECK(epochs_run({.monitor = "val_accuracy"}, {0.5, 0.6, 0.7, 0.7}) == 4);
  CHECK(epochs_run({.monitor = "val_accuracy"}, {0.5, 0.4, 0.7}) == 2);
  CHECK(epochs_run({.monitor = "other", .mode = MonitorMode::max}, {1, 2, 1}) == 3);
  CHECK(epochs_run({.monitor = "other", .mode = MonitorMode::min}, {1, 2, 1}) == 2);
  CHECK_THROWS_WITH(epochs_run({.monitor = "other"}, {1}),
                    "EarlyStopping does not know whether lower or higher values of \"other\" are "
                    "better; set its mode to min or max");
}

TEST_CASE("early stopping resets its wait only if the baseline is beaten too") {
  // Every epoch is the best so far, but none beats 3: wait goes on to the next worse one.
  CHECK(epochs_run({.patience = 3, .baseline = 3}, {6, 5, 5.5, 4}) == 3);
  CHECK(epochs_run({.patience = 3, .baseline = 3}, {6, 5, 2.5, 4, 4, 4}) == 6);
}

TEST_CASE("early stopping begins to look at its first epoch") {
  CHECK(epochs_run({.start_from_epoch = 3}, {1, 2, 3, 4, 5}) == 5);
}

TEST_CASE("early stopping passes over epochs without validation") {
  ScriptedTraining training({"loss", "val_loss"}, {EarlyStopping({.patience = 1})});
  training.run({{{"val_loss", 2}}, {{"loss", 1}}, {{"val_loss", 3}}, {{"loss", 1}}});
  CHECK(training.ended.size() == 3);
}

TEST_CASE("a value that is no number is no improvement, not even the first") {
  CHECK(epochs_run({.patience = 2}, {no_number, 5, 4, no_number, 3, 3, 3}) == 7);
  CHECK(epochs_run({.patience = 2}, {5, no_number, no_number, 1}) == 3);
}

TEST_CASE("early stopping restores the weights of the best epoch") {
  const EarlyStoppingOptions options{.patience = 2, .verbose = true, .restore_best_weights = true};
  SECTION("when it ends training") {
    ScriptedTraining training({"val_loss"}, {EarlyStopping(options)});
    training.run(epochs_of("val_loss", {5, 3, 4, 4, 1}));
    CHECK(training.weights == 1);
    CHECK(training.snapshots == 3);  // two that were the best, and the last
    CHECK(training.said ==
          std::vector<std::string>{
              "Epoch 4: EarlyStopping: val_loss is 4, no better than 3 of epoch 2; training ends",
              "Epoch 4: EarlyStopping: the weights are those of epoch 2 again"});
  }
  SECTION("when training ended by itself") {
    ScriptedTraining training({"val_loss"}, {EarlyStopping(options)});
    training.run(epochs_of("val_loss", {5, 3, 4}));
    CHECK(training.weights == 1);
  }
  SECTION("and leaves them without the option") {
    ScriptedTraining training({"val_loss"}, {EarlyStopping({.patience = 2})});
    training.run(epochs_of("val_loss", {5, 3, 4, 4}));
    CHECK(training.weights == 3);
    CHECK(training.snapshots == 0);
    CHECK(training.said.empty());
  }
}

TEST_CASE("early stopping begins anew with every run") {
  const SharedCallback callback = EarlyStopping({.patience = 1});
  ScriptedTraining training({"val_loss"}, {callback});
  training.run(epochs_of("val_loss", {1, 2, 3}));
  training.ended.clear();
  training.run(epochs_of("val_loss", {5, 4, 3}));
  CHECK(training.ended.size() == 3);
}

TEST_CASE("early stopping that was saved and loaded decides as if never interrupted") {
  const EarlyStoppingOptions options{.patience = 2, .restore_best_weights = true};
  const std::vector<double> values{5, 3, 4, 4, 1};
  for (std::size_t cut = 0; cut < 4; ++cut) {
    INFO("interrupted after " << cut << " epochs");
    const SharedCallback before = EarlyStopping(options);
    ScriptedTraining first({"val_loss"}, {before});
    first.run(epochs_of("val_loss", {values.begin(), values.begin() + cut}));
    const SharedCallback after = EarlyStopping(options);
    after->load(before->save());
    after->keep_weights(before->kept_weights());
    ScriptedTraining second({"val_loss"}, {after});
    second.go_on(first);
    if (cut > 0) CHECK(second.weights == static_cast<std::int64_t>(cut) - 1);
    second.run(epochs_of("val_loss", {values.begin() + cut, values.end()}),
               static_cast<std::int64_t>(cut));
    CHECK(cut + second.ended.size() == 4);
    CHECK(second.weights == 1);
  }
}

TEST_CASE("what several callbacks restored at the end is taken back in the reverse order") {
  const auto two = [] {
    return std::vector<SharedCallback>{
        EarlyStopping({.monitor = "loss", .patience = 9, .restore_best_weights = true}),
        EarlyStopping({.monitor = "val_loss", .patience = 9, .restore_best_weights = true})};
  };
  const std::vector<SharedCallback> before = two();
  ScriptedTraining first({"loss", "val_loss"}, before);
  first.run({{{"loss", 1}, {"val_loss", 2}},
             {{"loss", 2}, {"val_loss", 1}},
             {{"loss", 3}, {"val_loss", 3}}});
  CHECK(first.weights == 1);
  const std::vector<SharedCallback> after = two();
  for (std::size_t i = 0; i < after.size(); ++i) {
    after[i]->load(before[i]->save());
    after[i]->keep_weights(before[i]->kept_weights());
  }
  ScriptedTraining second({"loss", "val_loss"}, after);
  second.go_on(first);
  CHECK(second.weights == 2);
  second.run({{{"loss", 4}, {"val_loss", 4}}}, 3);
  CHECK(second.weights == 1);
}

TEST_CASE("a rank that is not the root takes the root's value") {
  ScriptedTraining training({"val_loss"}, {EarlyStopping({})});
  training.root = false;
  training.roots_word = {1, 7};  // there is a value, and it is always 7
  training.run(epochs_of("val_loss", {5, 4, 3}));
  CHECK(training.ended.size() == 2);
}

TEST_CASE("monitoring what the logs cannot have is an error when training begins") {
  const auto run = [](const std::string& monitor, const std::vector<std::string>& names) {
    ScriptedTraining training(names, {EarlyStopping({.monitor = monitor})});
    training.run(epochs_of("loss", {1}));
  };
  CHECK_THROWS_WITH(run("val_los", {"loss", "val_loss"}),
                    "EarlyStopping monitors \"val_los\", but the logs have only \"loss\" and "
                    "\"val_loss\"; did you mean \"val_loss\"?");
  CHECK_THROWS_WITH(run("val_loss", {"loss", "accuracy"}),
                    "EarlyStopping monitors \"val_loss\", but the logs have only \"loss\" and "
                    "\"accuracy\"; there is no validation data");
  CHECK_THROWS_WITH(run("accuracy", {"loss", "accuracy"}),
                    Catch::Contains("\"accuracy\", which is not in the logs of epoch 1"));
}

TEST_CASE("the rate falls on a plateau, and the logs have that of the epoch that ended") {
  ScriptedTraining training({"val_loss"},
                            {ReduceLROnPlateau({.factor = 0.5, .patience = 2, .verbose = true})});
  // Better in 0; not in 1, 2 -> halved after 2; not in 3, 4 -> halved after 4; better in 5.
  training.run(epochs_of("val_loss", {1, 1, 1, 1, 1, 0.5, 0.5}));
  CHECK(training.rates == std::vector<double>{1, 1, 1, 0.5, 0.5, 0.25, 0.25});
  for (std::size_t epoch = 0; epoch < training.ended.size(); ++epoch) {
    CHECK(training.ended[epoch].at("learning_rate") == training.rates[epoch]);
  }
  CHECK(
      training.said.at(0) ==
      "Epoch 3: ReduceLROnPlateau: val_loss is 1, no better than 1; the learning rate goes from 1 "
      "to 0.5");
  CHECK(training.said.size() == 2);
}

TEST_CASE("a plateau is what stays within min_delta") {
  ScriptedTraining training({"val_loss"}, {ReduceLROnPlateau({.factor = 0.5, .patience = 1})});
  training.run(epochs_of("val_loss", {1, 0.99995, 0.9, 0.8}));
  CHECK(training.rates == std::vector<double>{1, 1, 0.5, 0.5});
}

TEST_CASE("after a reduction the cooldown passes before waiting begins again") {
  ScriptedTraining training({"val_loss"},
                            {ReduceLROnPlateau({.factor = 0.5, .patience = 1, .cooldown = 2})});
  // Reduced after 1. Epoch 2: one more epoch of cooldown is left; epoch 3 ends it and waits, so
  // that it is reduced after 3; then again after 5.
  training.run(epochs_of("val_loss", {1, 1, 1, 1, 1, 1, 1}));
  CHECK(training.rates == std::vector<double>{1, 1, 0.5, 0.5, 0.25, 0.25, 0.125});
}

TEST_CASE("the rate does not fall below its minimum") {
  ScriptedTraining training({"val_loss"},
                            {ReduceLROnPlateau({.factor = 0.1, .patience = 1, .min_lr = 0.05})});
  training.run(epochs_of("val_loss", {1, 1, 1, 1}));
  CHECK(training.rates[1] == 1);
  CHECK(training.rates[2] == Approx(0.1));
  CHECK(training.rates[3] == 0.05);
  CHECK(training.learning_rate() == 0.05);
}

TEST_CASE("a plateau that was saved and loaded goes on as if never interrupted") {
  const ReduceLROnPlateauOptions options{.factor = 0.5, .patience = 2, .cooldown = 1};
  const std::vector<double> values{1, 1, 1, 1, 1, 1, 1};
  ScriptedTraining whole({"val_loss"}, {ReduceLROnPlateau(options)});
  whole.run(epochs_of("val_loss", values));
  for (std::size_t cut = 0; cut <= values.size(); ++cut) {
    INFO("interrupted after " << cut << " epochs");
    const SharedCallback before = ReduceLROnPlateau(options);
    ScriptedTraining first({"val_loss"}, {before});
    first.run(epochs_of("val_loss", {values.begin(), values.begin() + cut}));
    const SharedCallback after = ReduceLROnPlateau(options);
    after->load(before->save());
    ScriptedTraining second({"val_loss"}, {after}, SGD({.learning_rate = first.learning_rate()}));
    second.run(epochs_of("val_loss", {values.begin() + cut, values.end()}));
    CHECK(second.learning_rate() == whole.learning_rate());
  }
}

TEST_CASE("plateaus out of range are errors") {
  CHECK_THROWS_WITH(ReduceLROnPlateau({.factor = 1}),
                    "ReduceLROnPlateau: factor: expected a number of at least 0 and below 1, found "
                    "1");
  CHECK_THROWS_WITH(ReduceLROnPlateau({.patience = -1}), Catch::Contains("patience"));
  CHECK_THROWS_WITH(ReduceLROnPlateau({.min_lr = -1}), Catch::Contains("min_lr"));
  CHECK_THROWS_WITH(EarlyStopping({.patience = -1}), Catch::Contains("patience"));
  CHECK_THROWS_WITH(EarlyStopping({.min_delta = no_number}), Catch::Contains("min_delta"));
}

TEST_CASE("a scheduler sets the rate of each epoch from its index and the rate before") {
  ScriptedTraining training(
      {"loss"},
      {LearningRateScheduler(
          {.schedule = [](std::int64_t epoch, double rate) { return epoch < 2 ? rate : rate / 4; },
           .verbose = true})});
  training.run(epochs_of("loss", {1, 1, 1, 1}));
  CHECK(training.rates == std::vector<double>{1, 1, 0.25, 0.0625});
  CHECK(training.ended[3].at("learning_rate") == 0.0625);
  CHECK(training.said.at(2) ==
        "Epoch 3: LearningRateScheduler: the learning rate goes from 1 to 0.25");
  CHECK(LearningRateScheduler({.schedule = [](std::int64_t, double rate) {
          return rate;
        }})->adds_logs() == std::vector<std::string>{"learning_rate"});
}

TEST_CASE("a scheduler's function is called on the root alone") {
  int calls = 0;
  ScriptedTraining training({"loss"},
                            {LearningRateScheduler({.schedule = [&](std::int64_t, double) {
                              return static_cast<double>(++calls);
                            }})});
  training.root = false;
  training.roots_word = {0.125};
  training.run(epochs_of("loss", {1}));
  CHECK(calls == 0);
  CHECK(training.rates == std::vector<double>{0.125});
}

TEST_CASE("a scheduler's mistakes are errors") {
  const auto run = [](double rate, Optimizer optimizer) {
    ScriptedTraining training(
        {"loss"},
        {LearningRateScheduler({.schedule = [rate](std::int64_t, double) { return rate; }})},
        std::move(optimizer));
    training.run(epochs_of("loss", {1}));
  };
  CHECK_THROWS_WITH(run(-1, SGD()),
                    "LearningRateScheduler: the function gave -1 for epoch 0; expected a finite "
                    "learning rate of at least 0");
  CHECK_THROWS_WITH(run(no_number, SGD()), Catch::Contains("gave nan"));
  CHECK_THROWS_WITH(
      run(1, SGD({.learning_rate = CosineDecay({.initial_learning_rate = 1, .decay_steps = 2})})),
      Catch::Contains("follows CosineDecay"));
  CHECK_THROWS_WITH(LearningRateScheduler({}), Catch::Contains("no function"));
}

TEST_CASE("training ends after the batch whose loss is no number") {
  const double loss =
      GENERATE(std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity());
  std::vector<std::string> events;
  ScriptedTraining training({"loss"}, {TerminateOnNaN(), std::make_shared<Recorder>("a", events)});
  training.run({{{"loss", 1}}, {{"loss", loss}}, {{"loss", 1}}}, 0, 5);
  CHECK(training.ended.size() == 2);
  CHECK(std::count(events.begin(), events.end(), "a: batch end") == 6);
  CHECK(training.said == std::vector<std::string>{fmt::format(
                             "Epoch 2: TerminateOnNaN: the loss is {} after batch 1 of 5; training "
                             "ends",
                             loss)});
}

TEST_CASE("a loss that is no number is an error where that was asked for") {
  ScriptedTraining training({"loss"}, {TerminateOnNaN({.raise_error = true})});
  CHECK_THROWS_WITH(training.run(epochs_of("loss", {1, no_number}), 0, 3),
                    "Epoch 2: TerminateOnNaN: the loss is nan after batch 1 of 3");
}

TEST_CASE("a sample is written after so many epochs, and weights that are not finite end no run") {
  ScriptedTraining training(
      {"loss"}, {SampleText({.prompt = "The ", .tokens = 5, .top_k = 3, .every_epochs = 2})});
  training.writes = [&](const GenerationOptions& options) -> std::string {
    if (training.position().epoch == 5) throw ScoresNotFinite("the scores are NaN");
    return fmt::format("{} at {} of {}", options.tokens, options.temperature, options.top_k);
  };
  training.run(epochs_of("loss", {5, 4, 3, 2, 1, 0, 0}));
  CHECK(training.said ==
        std::vector<std::string>{"The 5 at 1 of 3", "The 5 at 1 of 3",
                                 "WARNING: SampleText: after epoch 6 the scores are NaN"});
  training.writes = [](const GenerationOptions&) -> std::string { throw Error("no such token"); };
  CHECK_THROWS_WITH(training.run(epochs_of("loss", {1})), "SampleText: no such token");
  CHECK_THROWS_WITH(SampleText({.prompt = "a", .every_epochs = 0}),
                    Catch::Contains("every_epochs"));
  CHECK_THROWS_WITH(SampleText({.prompt = "a", .temperature = -1}), Catch::Contains("temperature"));
}

TEST_CASE("the history has the logs of every epoch") {
  History history;
  const auto recorder = std::make_shared<HistoryRecorder>(history);
  ScriptedTraining training({"loss", "val_loss"}, {recorder});
  training.run({{{"loss", 3}}, {{"loss", 2}, {"val_loss", 4}}, {{"loss", 1}}}, 5);
  CHECK(history.epoch == std::vector<std::int64_t>{5, 6, 7});
  CHECK(history.at("loss") == std::vector<double>{3, 2, 1});
  CHECK(history.at("val_loss") == std::vector<double>{4});
  CHECK_THROWS_WITH(
      history.at("los"),
      "there is no \"los\" in the history (there are: \"loss\" and \"val_loss\"); did "
      "you mean \"loss\"?");
}

TEST_CASE("a history that holds earlier epochs goes on") {
  History history;
  history.epoch = {0, 1};
  history.history["loss"] = {1.0 / 3, no_number};
  const auto recorder = std::make_shared<HistoryRecorder>(history);
  ScriptedTraining training({"loss"}, {recorder});
  training.run(epochs_of("loss", {7}), 2);
  CHECK(history.epoch == std::vector<std::int64_t>{0, 1, 2});
  CHECK(history.at("loss").size() == 3);
}

TEST_CASE("logs keep their order and show another") {
  Logs logs{{"loss", 1}, {"learning_rate", 2}, {"val_loss", 3}, {"accuracy", 4}, {"val_a", 5}};
  logs.set("loss", 7);
  CHECK(logs.names() ==
        std::vector<std::string>{"loss", "learning_rate", "val_loss", "accuracy", "val_a"});
  CHECK(logs.in_display_order() ==
        std::vector<Logs::Entry>{
            {"accuracy", 4}, {"loss", 7}, {"val_a", 5}, {"val_loss", 3}, {"learning_rate", 2}});
  CHECK(logs.find("nothing") == std::nullopt);
  CHECK_THROWS_WITH(logs.at("los"), Catch::Contains("did you mean \"loss\"?"));
}

}  // namespace meshwork::callbacks_test

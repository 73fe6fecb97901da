// Callback: something that happens at the events of a training run.
//
// Order of events (keras/src/backend/torch/trainer.py, fit): train begin; for each epoch its begin,
// begin and end of each batch, validation (test begin, its batches, test end), its end; train end.
// Train end is not reached when an exception escapes. At every event callbacks run in the user's
// order, and after them the history and the progress; they share one dictionary of logs, so that
// later ones see what earlier ones add.
//
// Every rank runs every callback (training.h says how they agree). What a callback has to remember
// from epoch to epoch it can save and load, so that a run that is continued from a checkpoint
// decides as one that was never interrupted: `load` comes before train begin, which then must not
// reset what was loaded.
//
// Validation may be done by ranks that do not train (epoch_evaluator.h). An epoch's end then comes
// before its validation, unless a callback says that it waits for it. The values follow by an event of
// their own, in the order of the epochs: before the next epoch ends, and before anything is saved.
//
// Where train end restores weights, the last checkpoint of a run is taken after it: it has the
// weights that the run ends with. A run that goes on from it first takes the restoring back.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/checkpoint/options.h"
#include "runtime/train/loop/training.h"

namespace meshwork {

/// What a callback remembers, by name: numbers and text.
using CallbackState = std::map<std::string, std::variant<double, std::string>>;

/// What ranks that do not train have found of an epoch's weights.
struct Evaluated {
  TrainingPosition at;  // the epoch, as it ended
  Logs logs;            // "val_loss" and so on
};

/// What a callback remembers of having restored weights when the run ended: then those that it
/// keeps are the last epoch's.
inline constexpr const char* restored_key = "restored";

class Callback {
 public:
  virtual ~Callback() = default;

  /// "EarlyStopping": for messages and checkpoints.
  [[nodiscard]] virtual std::string class_name() const = 0;
  /// What it is about, "val_loss" for one that watches it: tells it from others of its class when a
  /// run goes on from a checkpoint. "" if there is nothing to say.
  [[nodiscard]] virtual std::string subject() const { return {}; }
  /// Whether what it decides follows from the logs and the position alone, and so is the same on
  /// every rank. Where one of the user's callbacks does not say so, the ranks take the root's word
  /// on stopping after every batch, and not only at the end of an epoch.
  [[nodiscard]] virtual bool decides_alike() const { return false; }
  /// Names of the values that it adds to the logs at the end of every epoch.
  [[nodiscard]] virtual std::vector<std::string> adds_logs() const { return {}; }

  /// Whether it needs the values of validation at an epoch's end. Only if none of the user's callbacks
  /// does, training goes on while others validate.
  [[nodiscard]] virtual bool waits_for_validation() const { return true; }

  /// How many values of the root's it hands to all ranks in an epoch (Training::agree), so that
  /// plans can show it.
  [[nodiscard]] virtual std::int64_t agreed_values() const { return 0; }

  /// After how many epochs it asks for histograms of the weights (Training::weight_histograms), so
  /// that plans can show it; 0: never.
  [[nodiscard]] virtual std::int64_t histogram_freq() const { return 0; }

  /// The file that it writes, on the root; empty for none.
  [[nodiscard]] virtual std::filesystem::path writes() const { return {}; }
  /// Of such a file that exists and is not empty: whether a callback like this has written it.
  [[nodiscard]] virtual bool has_written(const std::filesystem::path&) const { return true; }
  /// The folder that it fills with files of its own, on the root; empty for none.
  [[nodiscard]] virtual std::filesystem::path fills() const { return {}; }

  /// The checkpoints that it asks fit to save; none if it asks for none.
  [[nodiscard]] virtual std::optional<CheckpointOptions> checkpoints() const {
    return std::nullopt;
  }

  /// Throws `Error` for what cannot work in a run with these logs: before the run, on the root
  /// alone. It changes nothing.
  virtual void check(const ExpectedLogs&) const {}

  virtual void on_train_begin(Training&) {}
  virtual void on_train_end(Training&) {}
  /// When a run goes on from what was loaded, before train begin: takes back what on_train_end did
  /// to the weights, if that was saved after it. Callbacks do so in the reverse order.
  virtual void take_back_train_end(Training&) {}
  virtual void on_epoch_begin(Training&) {}
  virtual void on_epoch_end(Training&) {}
  /// The validation of an epoch that has ended without it (Training::evaluation_follows).
  virtual void on_evaluated(Training&, const Evaluated&) {}
  virtual void on_train_batch_begin(Training&) {}
  virtual void on_train_batch_end(Training&) {}
  virtual void on_test_begin(Training&) {}
  virtual void on_test_end(Training&) {}
  virtual void on_test_batch_begin(Training&) {}
  virtual void on_test_batch_end(Training&) {}

  /// The same on all ranks.
  [[nodiscard]] virtual CallbackState save() const { return {}; }
  /// Takes up what `save` gave. Throws `Error` for a state that does not fit.
  virtual void load(const CallbackState&) {}
  /// Weights that it keeps, which belong to the state; null for none.
  [[nodiscard]] virtual std::shared_ptr<const WeightsSnapshot> kept_weights() const {
    return nullptr;
  }
  virtual void keep_weights(std::shared_ptr<const WeightsSnapshot>) {}
};

using SharedCallback = std::shared_ptr<Callback>;

/// The number called `name` in a state. Throws `Error` naming `owner` if it is not there.
[[nodiscard]] double number_in(const CallbackState& state, const std::string& name,
                               const std::string& owner);

/// The callbacks of a run, in their order.
class CallbackList {
 public:
  explicit CallbackList(std::vector<SharedCallback> callbacks) : callbacks_(std::move(callbacks)) {}

  [[nodiscard]] std::vector<std::string> adds_logs() const;
  /// Passes `event` to all of them.
  void call(void (Callback::*event)(Training&), Training& training) const {
    for (const SharedCallback& callback : callbacks_) (*callback.*event)(training);
  }
  void call_evaluated(Training& training, const Evaluated& evaluated) const {
    for (const SharedCallback& callback : callbacks_) callback->on_evaluated(training, evaluated);
  }
  void take_back_train_end(Training& training) const;

 private:
  std::vector<SharedCallback> callbacks_;
};

}  // namespace meshwork

// Training: what callbacks see of a run, and what they can do to it.
//
// Callbacks know nothing of models or ranks beyond this interface, which the trainer implements.
// Every rank runs every callback at every event, and on all of them the logs are the same bit for
// bit. So a decision that follows from the logs and the position alone is the same everywhere. One
// that depends on anything else (a clock, a file, the user's own function) is taken on rank 0, the
// *root*, and handed out with `agree`. The trainer takes the root's word for stopping and for the
// learning rate at the end of an epoch, lest a callback that forgot this made ranks go different
// ways.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/train/metrics/metric.h"
#include "runtime/train/reporting/logs.h"

namespace meshwork {

struct Graph;
struct GenerationOptions;
class RoleMap;
class Rpc;

/// Weights at some moment, on each rank its own blocks. Opaque to callbacks.
class WeightsSnapshot {
 public:
  virtual ~WeightsSnapshot() = default;
};

/// How the values of a variable spread. The range from the least to the greatest of those that are
/// finite is cut into equal buckets; without a range, or without values, all are in the last.
struct WeightHistogram {
  static constexpr std::size_t buckets = 30;
  std::string path;  // "d1/kernel"
  double least = 0, greatest = 0;
  std::array<double, buckets> counts{};

  /// Where bucket `bucket` begins, and the one before ends.
  [[nodiscard]] double edge(std::size_t bucket) const {
    return bucket == buckets ? greatest
                             : least + (greatest - least) * static_cast<double>(bucket) / buckets;
  }
  [[nodiscard]] std::size_t bucket_of(double value) const {
    const double range = greatest - least;
    if (!(range > 0)) return buckets - 1;
    return std::min(static_cast<std::size_t>((value - least) / range * buckets), buckets - 1);
  }
};

/// Where a run stands.
struct TrainingPosition {
  std::int64_t first_epoch = 0;  // with which this run began
  std::int64_t epoch = 0;        // from 0
  std::int64_t epochs = 1;       // before which training ends
  std::int64_t batch = 0;        // in the epoch, or in the validation, from 0; at an epoch's
                                 // begin the first that it will train
  std::int64_t batches = 0;      // in an epoch, or in the validation
  std::int64_t iteration = 0;    // updates of the parameters so far
  std::int64_t samples = 0;      // of training seen in this epoch, by all ranks together
};

class Training {
 public:
  virtual ~Training() = default;

  [[nodiscard]] virtual const TrainingPosition& position() const = 0;
  /// During an epoch the running means since its start; at its end with the values of validation,
  /// if there was one. Values that callbacks set at an epoch's end are seen by those after them.
  /// Asked for after a batch, they wait for the device to be done with it: who can do without does.
  [[nodiscard]] virtual Logs& logs() = 0;
  /// At the end of validation or of an epoch: the values of validation come later, by
  /// Callback::on_evaluated.
  [[nodiscard]] virtual bool evaluation_follows() const { return false; }
  /// The names that the logs of an epoch can have: those of training, then those of validation,
  /// then what callbacks add. Epochs without validation lack the second.
  [[nodiscard]] virtual const std::vector<std::string>& log_names() const = 0;
  /// Whether lower or higher values of a log are better, as far as that is known: of the loss, the
  /// metrics, and both in validation.
  [[nodiscard]] virtual std::optional<Better> better(const std::string& log_name) const = 0;

  /// The rate of the next update.
  [[nodiscard]] virtual double learning_rate() const = 0;
  /// Throws `Error` if the optimizer follows a schedule.
  virtual void set_learning_rate(double rate) = 0;
  /// Training ends after this batch, and its epoch with it.
  virtual void stop() = 0;
  [[nodiscard]] virtual bool stopping() const = 0;

  /// The weights as they are. The optimizer's slots are not in it. Collective.
  [[nodiscard]] virtual std::shared_ptr<const WeightsSnapshot> snapshot_weights() = 0;
  /// Collective.
  virtual void restore_weights(const WeightsSnapshot& snapshot) = 0;

  /// The value of the variable `path`, whole and row-major, on the root; empty elsewhere. Throws `Error`
  /// if the model has none of that path. Collective.
  [[nodiscard]] virtual std::vector<float> weights(const std::string&) { return {}; }

  /// Whether the optimizer keeps running means of the weights.
  [[nodiscard]] virtual bool keeps_averages() const { return false; }
  /// The means take the place of the weights, and these that of the means; or all go back. Nothing
  /// happens where they are as asked for. An epoch begins with the weights. Collective.
  virtual void use_averages(bool) {}

  /// Of every variable, in the order of the graph, each element once. Collective.
  [[nodiscard]] virtual std::vector<WeightHistogram> weight_histograms() { return {}; }

  /// `prompt` and what a model of next tokens writes behind it, by the seed of the run (generation.h,
  /// token_text.h), whose errors it throws. Collective.
  [[nodiscard]] virtual std::string generated_text(const std::string& prompt,
                                                   const GenerationOptions&) {
    return prompt;
  }

  /// Calls between all ranks of the job, where some do not train; else null.
  [[nodiscard]] virtual Rpc* rpc() { return nullptr; }
  /// Which of these ranks have which role (role_map.h); null where there is no `rpc`.
  [[nodiscard]] virtual const RoleMap* roles() const { return nullptr; }

  /// Whether this is rank 0, which writes and decides.
  [[nodiscard]] virtual bool is_root() const = 0;
  /// Makes `values` those of the root, on every rank; all have as many. Collective.
  virtual void agree(std::span<double> values) = 0;
  /// After a batch whose loss is not finite: on which rank, and in what, that was first seen, in
  /// words; "" if it cannot be told. The same on every rank. It takes long. Collective.
  [[nodiscard]] virtual std::string where_not_finite() { return {}; }
  /// Prints a line for the user, from the root.
  virtual void say(const std::string& line) = 0;
};

/// The logs, and more, of a run that has not begun.
struct ExpectedLogs {
  std::vector<std::string> names;        // as Training::log_names
  std::map<std::string, Better> better;  // of losses and metrics
  std::filesystem::path directory;       // of the run's checkpoints, which it makes; empty for none
  bool averages = false;                 // as Training::keeps_averages
  std::shared_ptr<const Graph> model = {};
};

/// `Training::log_names` of a run whose sums have these names ("loss" first), whose callbacks add
/// `added`, with the norm of the gradients and validation or without.
[[nodiscard]] std::vector<std::string> log_names_of(std::span<const std::string> sums,
                                                    bool gradient_norm, bool validated,
                                                    std::span<const std::string> added);

/// `Training::better` for a run of whose logs that is `known`: "val_" changes nothing.
[[nodiscard]] std::optional<Better> better_of(const std::string& log_name,
                                              const std::map<std::string, Better>& known);

}  // namespace meshwork

#include "runtime/train/callbacks/tensorboard.h"

#include <chrono>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "collectives/failed_write.h"
#include "collectives/path_text.h"
#include "runtime/checkpoint/new_file.h"
#include "runtime/checkpoint/output_place.h"
#include "runtime/train/callbacks/epoch_rate.h"
#include "runtime/train/callbacks/event_files.h"
#include "runtime/train/callbacks/event_messages.h"
#include "runtime/train/from_config.h"

namespace meshwork {
namespace {

const std::string validation_prefix = "val_";

using Scalars = std::vector<std::pair<std::string, double>>;

double event_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

class TensorBoardCallback final : public Callback {
 public:
  explicit TensorBoardCallback(TensorBoardOptions options)
      : options_(std::move(options)),
        train_("TensorBoard", options_.log_dir / "train"),
        validation_("TensorBoard", options_.log_dir / "validation") {}

  std::string class_name() const override { return "TensorBoard"; }
  bool decides_alike() const override { return true; }
  bool waits_for_validation() const override { return false; }
  std::int64_t histogram_freq() const override { return options_.histogram_freq; }
  std::filesystem::path fills() const override { return options_.log_dir; }
  void check(const ExpectedLogs&) const override {
    if (const std::string obstacle = obstacle_to_folder(options_.log_dir); !obstacle.empty()) {
      fail("TensorBoard: {} cannot be written: {}", options_.log_dir, obstacle);
    }
    train_.check();
    validation_.check();
  }

  void on_train_begin(Training& training) override {
    const bool continued = std::exchange(loaded_, false);
    if (!training.is_root()) return;
    lock_.reset();
    make_folder();
    lock_.emplace(options_.log_dir);
    const TrainingPosition& at = training.position();
    const auto goes_on =
        continued ? std::optional(EventFiles::GoesOn{at.first_epoch, at.iteration}) : std::nullopt;
    train_.begin(goes_on);
    validation_.begin(goes_on);
  }
  void on_epoch_begin(Training& training) override { rate_.begin_epoch(training); }

  void on_train_batch_end(Training& training) override {
    rate_.end_batch();
    const std::int64_t updates = training.position().iteration;
    if (!training.is_root() || options_.update_freq.updates == 0 ||
        updates % options_.update_freq.updates != 0) {
      return;
    }
    Scalars scalars;
    for (const auto& [name, value] : training.logs()) {
      scalars.emplace_back(std::string(batch_prefix) + name, value);
    }
    write(train_, updates, scalars);
  }

  void on_test_end(Training& training) override {
    if (training.is_root()) write_validation(training.position().iteration, training.logs());
  }
  void on_evaluated(Training& training, const Evaluated& evaluated) override {
    if (!training.is_root()) return;
    write_validation(evaluated.at.iteration, evaluated.logs);
    write(validation_, evaluated.at.epoch, of_epoch(evaluated.logs));
  }

  void on_epoch_end(Training& training) override {
    const std::int64_t epoch = training.position().epoch;
    if (training.is_root()) {
      Scalars trained;
      for (const auto& [name, value] : training.logs()) {
        if (!name.starts_with(validation_prefix) && name != "learning_rate") {
          trained.emplace_back("epoch_" + name, value);
        }
      }
      trained.emplace_back("epoch_learning_rate", training.learning_rate());
      if (const std::optional<double> rate = rate_.samples_per_second(training)) {
        trained.emplace_back("epoch_samples_per_second", *rate);
      }
      write(train_, epoch, trained);
      write(validation_, epoch, of_epoch(training.logs()));
      look_at_names(training);
    }
    if (options_.histogram_freq > 0 && epoch % options_.histogram_freq == 0) {
      const std::vector<WeightHistogram> histograms = training.weight_histograms();
      if (training.is_root()) {
        train_.write(histograms_event(event_time(), epoch, histograms));
      }
    }
  }

  void on_train_end(Training& training) override {
    if (!training.is_root()) return;
    look_at_names(training);
    train_.close();
    validation_.close();
    lock_.reset();
  }

  // The files are the state; that there is one says that the run goes on.
  CallbackState save() const override { return {{"log_dir", options_.log_dir.string()}}; }
  void load(const CallbackState&) override { loaded_ = true; }

 private:
  /// The values of validation.
  static Scalars of_epoch(const Logs& logs) {
    Scalars scalars;
    for (const auto& [name, value] : logs) {
      if (name.starts_with(validation_prefix)) {
        scalars.emplace_back("epoch_" + name.substr(validation_prefix.size()), value);
      }
    }
    return scalars;
  }
  void write_validation(std::int64_t iteration, const Logs& logs) {
    Scalars scalars;
    for (const auto& [name, value] : logs) {
      if (name.starts_with(validation_prefix)) {
        scalars.emplace_back(fmt::format("{}{}_vs_iterations", evaluation_prefix,
                                         name.substr(validation_prefix.size())),
                             value);
      }
    }
    write(validation_, iteration, scalars);
  }
  static void write(EventFiles& files, std::int64_t step, const Scalars& scalars) {
    if (!scalars.empty()) files.write(scalars_event(event_time(), step, scalars));
  }

  void look_at_names(Training& training) {
    train_.look(training);
    validation_.look(training);
  }

  void make_folder() const {
    std::error_code problem;
    std::filesystem::create_directories(options_.log_dir, problem);
    if (problem) {
      fail_to_make(problem.value(), fmt::format("TensorBoard: {} cannot be made: {}",
                                                options_.log_dir, problem.message()));
    }
  }

  TensorBoardOptions options_;
  std::optional<OutputLock> lock_;  // while this run writes
  EventFiles train_, validation_;
  EpochRate rate_;
  bool loaded_ = false;
};

}  // namespace

void from_config(const ConfigNode& node, UpdateFrequency& frequency) {
  const std::string text = node.is_scalar() ? node.as<std::string>() : "";
  if (text == "epoch" || text == "batch") {
    frequency.updates = text == "batch" ? 1 : 0;
    return;
  }
  try {
    frequency.updates = node.as<std::int64_t>(positive);
  } catch (const ConfigError&) {
    node.fail("expected {}{}", UpdateFrequency::expected,
              text.empty() ? "" : fmt::format(", found \"{}\"", text));
  }
}

std::string to_text(const UpdateFrequency& frequency) {
  return frequency.updates == 0   ? "epoch"
         : frequency.updates == 1 ? "batch"
                                  : std::to_string(frequency.updates);
}

template <class Visitor>
void describe(TensorBoardOptions& options, Visitor& option) {
  option.about("writes event files that TensorBoard shows, with the tags of Keras's callback");
  option.required("log_dir", options.log_dir,
                  "directory of the event files, with folders train and validation");
  option("update_freq", options.update_freq, "updates between writes of the epoch's running means");
  option("histogram_freq", options.histogram_freq, at_least(0),
         "epochs between histograms of all weights; 0: none");
}

SharedCallback TensorBoard(const TensorBoardOptions& options) {
  if (!writes_events()) {
    fail(
        "TensorBoard: this program was built without the protobuf library, which writes event "
        "files; install it with its compiler (Debian: libprotobuf-dev, protobuf-compiler), and run "
        "launch/build again");
  }
  if (options.log_dir.empty()) {
    fail("TensorBoard: there is no directory");
  }
  TensorBoardOptions made = options;
  made.log_dir = (made.log_dir / "").parent_path();  // without a slash at its end
  return std::make_shared<TensorBoardCallback>(std::move(made));
}

void add_tensorboard(Catalog& catalog) {
  catalog.add<SharedCallback, TensorBoardOptions>("TensorBoard", {}, TensorBoard);
}

}  // namespace meshwork

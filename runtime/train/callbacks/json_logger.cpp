#include "runtime/train/callbacks/json_logger.h"

#include <charconv>
#include <chrono>
#include <utility>

#include "collectives/error.h"
#include "runtime/checkpoint/descriptor.h"
#include "runtime/config/text_table.h"
#include "runtime/train/callbacks/line_file.h"
#include "runtime/train/from_config.h"

namespace meshwork {
namespace {

const std::string json_line_begin = "{\"epoch\": ";

std::optional<std::int64_t> epoch_of_json(std::string_view line) {
  std::int64_t epoch = 0;
  if (!line.starts_with(json_line_begin)) return std::nullopt;
  line.remove_prefix(json_line_begin.size());
  const auto parsed = std::from_chars(line.data(), line.data() + line.size(), epoch);
  return parsed.ec == std::errc() ? std::optional(epoch) : std::nullopt;
}

class JSONLoggerCallback final : public Callback {
 public:
  explicit JSONLoggerCallback(const JSONLoggerOptions& options)
      : file_("JSONLogger", options.file) {}

  std::string class_name() const override { return "JSONLogger"; }
  bool decides_alike() const override { return true; }
  std::filesystem::path writes() const override { return file_.path(); }
  bool has_written(const std::filesystem::path& file) const override {
    return begin_of(file).starts_with(json_line_begin);
  }
  void check(const ExpectedLogs& run) const override { file_.check(run.directory); }

  void on_train_begin(Training& training) override {
    const bool continued = std::exchange(loaded_, false);
    if (!training.is_root()) return;
    if (continued) {
      (void)file_.append(training.position().first_epoch, epoch_of_json);
    } else {
      file_.replace();
    }
  }
  void on_epoch_begin(Training& training) override {
    begin_ = trained_ = Clock::now();
    first_sample_ = training.position().samples;
  }
  void on_train_batch_end(Training&) override { trained_ = Clock::now(); }
  void on_epoch_end(Training& training) override {
    if (!training.is_root()) return;
    const TrainingPosition& at = training.position();
    std::string line = fmt::format("{}{}, \"step\": {}", json_line_begin, at.epoch, at.iteration);
    const auto add = [&](const std::string& name, double value) {
      line += fmt::format(", {}: {}", json_text(name), json_number(value));
    };
    for (const auto& [name, value] : training.logs()) {
      if (name != "learning_rate") add(name, value);
    }
    add("learning_rate", training.learning_rate());
    const double training_seconds = seconds(begin_, trained_);
    if (training_seconds > 0) {
      add("samples_per_second", static_cast<double>(at.samples - first_sample_) / training_seconds);
    }
    add("seconds", seconds(begin_, Clock::now()));
    file_.write(line + "}");
  }
  void on_train_end(Training& training) override {
    if (training.is_root()) file_.close();
  }

  // The file is the state; that there is one says that the run goes on.
  CallbackState save() const override { return {{"file", file_.path().string()}}; }
  void load(const CallbackState&) override { loaded_ = true; }

 private:
  using Clock = std::chrono::steady_clock;
  static double seconds(Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
  }

  LineFile file_;
  Clock::time_point begin_, trained_;  // the epoch, and its last batch so far
  std::int64_t first_sample_ = 0;      // with which this run began the epoch
  bool loaded_ = false;
};

}  // namespace

template <class Visitor>
void describe(JSONLoggerOptions& options, Visitor& option) {
  option.about("writes the logs of each epoch as a line of JSON");
  option.required("file", options.file, "the file, .jsonl by custom");
}

SharedCallback JSONLogger(const JSONLoggerOptions& options) {
  if (options.file.empty()) {
    fail("JSONLogger: there is no file name");
  }
  return std::make_shared<JSONLoggerCallback>(options);
}

void add_json_logger(Catalog& catalog) {
  catalog.add<SharedCallback, JSONLoggerOptions>("JSONLogger", {}, JSONLogger);
}

}  // namespace meshwork

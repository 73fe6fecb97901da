#include "runtime/train/callbacks/json_logger.h"

#include <charconv>
#include <utility>

#include "collectives/error.h"
#include "runtime/checkpoint/descriptor.h"
#include "runtime/config/text_table.h"
#include "runtime/train/callbacks/epoch_rate.h"
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

bool is_object(std::string_view line, std::string_view) {
  return line.starts_with(json_line_begin) && line.ends_with('}');
}

class JSONLoggerCallback final : public Callback {
 public:
  explicit JSONLoggerCallback(const JSONLoggerOptions& options)
      : file_("JSONLogger", options.filename) {}

  std::string class_name() const override { return "JSONLogger"; }
  bool decides_alike() const override { return true; }
  bool waits_for_validation() const override { return false; }
  std::filesystem::path writes() const override { return file_.path(); }
  bool has_written(const std::filesystem::path& file) const override {
    return begin_of(file).starts_with(json_line_begin);
  }
  void check(const ExpectedLogs& run) const override { file_.check(run.directory); }

  void on_train_begin(Training& training) override {
    const bool continued = std::exchange(loaded_, false);
    if (!training.is_root()) return;
    if (continued) {
      (void)file_.append(training.position().first_epoch, epoch_of_json, is_object);
    } else {
      file_.replace();
    }
  }
  void on_epoch_begin(Training& training) override { rate_.begin_epoch(training); }
  void on_train_batch_end(Training&) override { rate_.end_batch(); }
  void on_epoch_end(Training& training) override {
    if (!training.is_root()) return;
    const TrainingPosition& at = training.position();
    line_ = fmt::format("{}{}, \"step\": {}", json_line_begin, at.epoch, at.iteration);
    for (const auto& [name, value] : training.logs()) {
      if (name != "learning_rate") add(line_, name, value);
    }
    rest_.clear();
    add(rest_, "learning_rate", training.learning_rate());
    if (const std::optional<double> rate = rate_.samples_per_second(training)) {
      add(rest_, "samples_per_second", *rate);
    }
    add(rest_, "seconds", rate_.seconds());
    if (!training.evaluation_follows()) file_.write(line_ + rest_ + "}", training);
  }
  void on_evaluated(Training& training, const Evaluated& evaluated) override {
    if (!training.is_root()) return;
    for (const auto& [name, value] : evaluated.logs) add(line_, name, value);
    file_.write(line_ + rest_ + "}", training);
  }
  void on_train_end(Training& training) override {
    if (training.is_root()) file_.end(training);
  }

  // The file is the state; that there is one says that the run goes on.
  CallbackState save() const override { return {{"file", file_.path().string()}}; }
  void load(const CallbackState&) override { loaded_ = true; }

 private:
  static void add(std::string& line, const std::string& name, double value) {
    line += fmt::format(", {}: {}", json_text(name), json_number(value));
  }

  LineFile file_;
  std::string line_, rest_;  // of an epoch: up to its logs, and what follows
  EpochRate rate_;
  bool loaded_ = false;
};

}  // namespace

template <class Visitor>
void describe(JSONLoggerOptions& options, Visitor& option) {
  option.about("writes the logs of each epoch as a line of JSON");
  option.required("filename", options.filename, "the file, usually NAME.jsonl");
}

SharedCallback JSONLogger(const JSONLoggerOptions& options) {
  if (options.filename.empty()) {
    fail("JSONLogger: there is no file name");
  }
  return std::make_shared<JSONLoggerCallback>(options);
}

void add_json_logger(Catalog& catalog) {
  catalog.add<SharedCallback, JSONLoggerOptions>("JSONLogger", {}, JSONLogger);
}

}  // namespace meshwork

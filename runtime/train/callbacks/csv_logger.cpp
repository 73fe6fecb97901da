#include "runtime/train/callbacks/csv_logger.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "collectives/error.h"
#include "collectives/path_text.h"
#include "collectives/wrong_input.h"
#include "runtime/checkpoint/descriptor.h"
#include "runtime/config/character.h"
#include "runtime/train/callbacks/line_file.h"
#include "runtime/train/from_config.h"

namespace meshwork {
namespace {

const std::string first_column = "epoch";

std::optional<std::int64_t> epoch_of_csv(std::string_view line) {
  std::int64_t epoch = 0;
  const auto parsed = std::from_chars(line.data(), line.data() + line.size(), epoch);
  return parsed.ec == std::errc() ? std::optional(epoch) : std::nullopt;
}

class CSVLoggerCallback final : public Callback {
 public:
  explicit CSVLoggerCallback(const CSVLoggerOptions& options)
      : options_(options), file_("CSVLogger", options.filename) {}

  std::string class_name() const override { return "CSVLogger"; }
  bool decides_alike() const override { return true; }
  bool waits_for_validation() const override { return false; }
  std::filesystem::path writes() const override { return options_.filename; }
  bool has_written(const std::filesystem::path& file) const override {
    const std::string begin = begin_of(file);
    return begin.starts_with(first_column + '\n') ||
           begin.starts_with(first_column + options_.separator);
  }
  void check(const ExpectedLogs& run) const override { file_.check(run.directory); }

  void on_train_begin(Training& training) override {
    columns_.clear();
    const bool continued = std::exchange(loaded_, false);
    if (!training.is_root()) {
      return;
    }
    header_ = "";
    if (options_.append || continued) {
      header_ =
          file_.append(continued ? std::optional(training.position().first_epoch) : std::nullopt,
                       epoch_of_csv, [this](std::string_view line, std::string_view heading) {
                         return is_row(line, heading);
                       });
    } else {
      file_.replace();
    }
  }

  void on_epoch_end(Training& training) override {
    if (!training.is_root()) {
      return;
    }
    if (columns_.empty()) {
      find_columns(training);
    }
    if (training.evaluation_follows()) {
      trained_ = training.logs();
    } else {
      write(training, training.position().epoch, training.logs());
    }
  }
  void on_evaluated(Training& training, const Evaluated& evaluated) override {
    if (!training.is_root()) return;
    for (const auto& [name, value] : evaluated.logs) trained_.set(name, value);
    write(training, evaluated.at.epoch, trained_);
  }

  void on_train_end(Training& training) override {
    if (training.is_root()) file_.end(training);
  }

  // The file is the state; that there is one says that the run goes on.
  CallbackState save() const override { return {{"file", options_.filename.string()}}; }
  void load(const CallbackState&) override { loaded_ = true; }

 private:
  void write(Training& training, std::int64_t epoch, const Logs& logs) {
    std::string line = fmt::format("{}", epoch);
    for (const std::string& column : columns_) {
      const std::optional<double> value = logs.find(column);
      line += options_.separator + (value ? fmt::format("{}", *value) : "NA");
    }
    file_.write(line, training);
  }

  // Whether there is a value in each column. A run that was killed may have left half of the last
  // one, but then its epoch is trained again.
  bool is_row(std::string_view line, std::string_view heading) const {
    const auto separators = [this](std::string_view text) {
      return std::ranges::count(text, options_.separator);
    };
    return !heading.empty() && separators(line) == separators(heading) &&
           !line.ends_with(options_.separator);
  }

  void find_columns(Training& training) {
    std::set<std::string> names;
    for (const std::string& name : training.logs().names()) {
      names.insert(name);
    }
    for (const std::string& name : training.log_names()) {
      if (name.starts_with("val_")) {
        names.insert(name);
      }
    }
    columns_.assign(names.begin(), names.end());
    std::string header = first_column;
    for (const std::string& column : columns_) {
      header += options_.separator + column;
    }
    if (header_.empty()) {
      file_.write(header, training);
    } else if (header_ != header) {
      throw WrongInput(fmt::format(
          "CSVLogger: {} has the columns \"{}\", not \"{}\"; choose another file, or append: false",
          options_.filename, header_, header));
    }
  }

  CSVLoggerOptions options_;
  LineFile file_;
  std::string header_;  // of the file that lines are appended to
  std::vector<std::string> columns_;
  Logs trained_;  // of an epoch whose validation follows
  bool loaded_ = false;
};

}  // namespace

template <class Visitor>
void describe(CSVLoggerOptions& options, Visitor& option) {
  option.about("writes the logs of each epoch as a line of CSV");
  option.required("filename", options.filename, "the CSV file");
  option("separator", options.separator, "character between values");
  option("append", options.append, "keep existing lines");
}

SharedCallback CSVLogger(const CSVLoggerOptions& options) {
  if (options.filename.empty()) {
    fail("CSVLogger: there is no file name");
  }
  return std::make_shared<CSVLoggerCallback>(options);
}

void add_csv_logger(Catalog& catalog) {
  catalog.add<SharedCallback, CSVLoggerOptions>("CSVLogger", {}, CSVLogger);
}

}  // namespace meshwork

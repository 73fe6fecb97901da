#include "runtime/train/callbacks/csv_logger.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include "collectives/error.h"
#include "collectives/file_size_limit.h"
#include "runtime/checkpoint/descriptor.h"
#include "runtime/config/character.h"
#include "runtime/train/from_config.h"

namespace meshwork {
namespace {

const std::string first_column = "epoch";

class CSVLoggerCallback final : public Callback {
 public:
  explicit CSVLoggerCallback(const CSVLoggerOptions& options) : options_(options) {}

  std::string class_name() const override { return "CSVLogger"; }
  bool decides_alike() const override { return true; }
  std::filesystem::path writes() const override { return options_.file; }
  bool has_written(const std::filesystem::path& file) const override {
    const std::string begin = begin_of(file);
    return begin.starts_with(first_column + '\n') ||
           begin.starts_with(first_column + options_.separator);
  }

  void check(const ExpectedLogs&) const override {
    std::error_code problem;
    const std::filesystem::path folder =
        options_.file.has_parent_path() ? options_.file.parent_path() : ".";
    if (std::filesystem::is_directory(options_.file, problem)) {
      fail("CSVLogger: {} is a folder", options_.file.string());
    }
    if (std::filesystem::is_fifo(options_.file, problem)) {
      fail("CSVLogger: {} is a pipe, which would wait for who reads it; a file is expected",
           options_.file.string());
    }
    if (!std::filesystem::is_directory(folder, problem)) {
      fail("CSVLogger: {} cannot be written: there is no folder {}", options_.file.string(),
           folder.string());
    }
    const bool exists = std::filesystem::exists(options_.file, problem);
    if (::access((exists ? options_.file : folder).c_str(), W_OK) != 0) {
      fail("CSVLogger: {} cannot be written: {}", options_.file.string(), std::strerror(errno));
    }
  }

  void on_train_begin(Training& training) override {
    columns_.clear();
    const bool continued = std::exchange(loaded_, false);
    if (!training.is_root()) {
      return;
    }
    header_ = "";
    const bool appends = options_.append || continued;
    if (appends) {
      find_lines(continued ? std::optional(training.position().first_epoch) : std::nullopt);
    }
    errno = 0;
    stream_ = std::ofstream(options_.file, appends ? std::ios::app : std::ios::trunc);
    check_stream("opened");
  }

  void on_epoch_end(Training& training) override {
    if (!training.is_root()) {
      return;
    }
    if (columns_.empty()) {
      find_columns(training);
    }
    std::string line = fmt::format("{}", training.position().epoch);
    for (const std::string& column : columns_) {
      const std::optional<double> value = training.logs().find(column);
      line += options_.separator + (value ? fmt::format("{}", *value) : "NA");
    }
    write(line);
  }

  void on_train_end(Training& training) override {
    if (training.is_root()) {
      errno = 0;
      stream_.close();
      check_stream("closed");
    }
  }

  // The file is the state; that there is one says that the run goes on.
  CallbackState save() const override { return {{"file", options_.file.string()}}; }
  void load(const CallbackState&) override { loaded_ = true; }

 private:
  // The header of the file that is there, if any. What follows its last complete line is cut off,
  // and so is everything from the line of epoch `end` on.
  void find_lines(std::optional<std::int64_t> end) {
    std::error_code problem;
    if (!std::filesystem::exists(options_.file, problem)) {
      return;
    }
    errno = 0;
    std::ifstream input(options_.file, std::ios::binary);
    std::ostringstream content;
    content << input.rdbuf();
    if (!input && !input.eof()) {
      fail("CSVLogger: {} cannot be read: {}", options_.file.string(), std::strerror(errno));
    }
    const std::string text = content.str();
    std::size_t kept = 0;
    for (std::size_t line_end; (line_end = text.find('\n', kept)) != std::string::npos;
         kept = line_end + 1) {
      const std::string line = text.substr(kept, line_end - kept);
      if (kept == 0) {
        header_ = line;
      } else if (std::int64_t epoch = 0; end) {
        const auto parsed = std::from_chars(line.data(), line.data() + line.size(), epoch);
        if (parsed.ec == std::errc() && epoch >= *end) {
          break;
        }
      }
    }
    if (kept < text.size()) {
      std::filesystem::resize_file(options_.file, kept, problem);
      if (problem) {
        fail("CSVLogger: {} cannot be cut to {} bytes: {}", options_.file.string(), kept,
             problem.message());
      }
    }
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
      write(header);
    } else if (header_ != header) {
      fail(
          "CSVLogger: {} has the columns \"{}\", and \"{}\" are to be appended; choose another "
          "file or do not append",
          options_.file.string(), header_, header);
    }
  }

  void write(const std::string& line) {
    const FileSizeSignalBlocked blocked;
    errno = 0;
    stream_ << line << '\n' << std::flush;
    check_stream("written");
  }

  void check_stream(const char* what) const {
    if (!stream_) {
      fail("CSVLogger: {} cannot be {}: {}", options_.file.string(), what,
           errno ? std::strerror(errno) : "unknown reason");
    }
  }

  CSVLoggerOptions options_;
  std::ofstream stream_;
  std::string header_;  // of the file that lines are appended to
  std::vector<std::string> columns_;
  bool loaded_ = false;
};

}  // namespace

template <class Visitor>
void describe(CSVLoggerOptions& options, Visitor& option) {
  option.about("writes the logs of each epoch as a line of CSV");
  option.required("file", options.file, "the CSV file");
  option("separator", options.separator, "between values");
  option("append", options.append, "keep the lines that are there");
}

SharedCallback CSVLogger(const CSVLoggerOptions& options) {
  if (options.file.empty()) {
    fail("CSVLogger: there is no file name");
  }
  return std::make_shared<CSVLoggerCallback>(options);
}

void add_csv_logger(Catalog& catalog) {
  catalog.add<SharedCallback, CSVLoggerOptions>("CSVLogger", {}, CSVLogger);
}

}  // namespace meshwork

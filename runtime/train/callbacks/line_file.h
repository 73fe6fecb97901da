// LineFile: a file of a callback's, of a line each epoch, that the root writes and flushes line by
// line. A run that goes on drops the lines of epochs that are trained again, so that there is
// neither a gap nor a double. While it is open the file is locked, where the file system has locks:
// another run does not write between the lines.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/train/callbacks/watched_name.h"
#include "runtime/train/loop/training.h"

namespace meshwork {

class LineFile {
 public:
  /// The epoch of a line, from 0; none for a heading.
  using EpochOf = std::function<std::optional<std::int64_t>(std::string_view line)>;
  /// Whether a line that has no end of line is all there, in a file whose first line is `first`, or
  /// "" for that one.
  using IsWhole = std::function<bool(std::string_view line, std::string_view first)>;

  /// `owner` begins messages: "CSVLogger".
  LineFile(std::string owner, std::filesystem::path file)
      : owner_(std::move(owner)), file_(std::move(file)) {}
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  /// Throws `Error` if the file could not be written (output_place.h), where the folder `to_come`
  /// will be made. Changes nothing.
  void check(const std::filesystem::path& to_come) const;
  /// Opens the file and empties it. Throws `FailedWrite`, and changes nothing, if another run is
  /// writing it.
  void replace();
  /// Opens the file, as `replace`, to write below the lines that are there, and gives the first of
  /// these, or "". Those of epoch `end` and later are taken out, and what follows the last complete
  /// one is cut off.
  std::string append(std::optional<std::int64_t> end, const EpochOf& epoch_of,
                     const IsWhole& is_whole);
  /// Appends a line. A warning goes to the user of `training` (watched_name.h).
  void write(const std::string& line, Training& training);
  /// Closes the file.
  void end(Training& training);

  [[nodiscard]] const std::filesystem::path& path() const { return file_; }

 private:
  void open();
  void close();
  void cut(std::int64_t bytes) const;
  void write_all(std::string_view text, std::int64_t at) const;
  void require(bool done, const char* what) const;

  std::string owner_;
  std::filesystem::path file_;
  int opened_ = -1;
  WatchedName named_;
};

}  // namespace meshwork

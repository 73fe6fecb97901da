// EventFiles: the event files of a folder, which TensorBoard shows as one run.
//
// A file is a sequence of *records*, as TensorFlow's TFRecord has them: the length (8 bytes, little
// endian), its checksum (4 bytes), the bytes of an event (event_messages.h), and theirs. A checksum
// is the CRC-32C, rotated right by 15 bits, plus 0xa282ead8. TensorBoard reads the files of a
// folder one behind the other, in the order of their names, which begin with a time.
//
// A run that begins removes the files of an earlier one. A run that goes on cuts off what is
// trained again, and what a killed run has left of a record, and then writes a file of its own. So
// whoever reads later finds neither a gap nor a double; and a TensorBoard that is open meanwhile,
// which is somewhere in the old file, finds nothing there that it has not asked for. Its fast
// reader drops what a tag had beyond the first new step. The slow one (--load_fast=false) goes by
// the START of a session, which has updates as its step: it shows epochs that are trained again
// twice until it is started again.
//
// Only files whose first event says that we wrote them are touched.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/train/callbacks/watched_name.h"

namespace meshwork {

/// The record of an event.
[[nodiscard]] std::string record_of(std::string_view event);

class EventFiles {
 public:
  /// Where a run goes on. What was written of it before is kept: the epochs before `epoch`, and the
  /// updates up to `updates`.
  struct GoesOn {
    std::int64_t epoch = 0;
    std::int64_t updates = 0;
  };

  /// `owner` begins messages: "TensorBoard".
  EventFiles(std::string owner, std::filesystem::path folder)
      : owner_(std::move(owner)), folder_(std::move(folder)) {}

  /// Throws `Error` if the folder can neither be made nor written in, or has event files of another
  /// program, with which TensorBoard would join ours. Changes nothing.
  void check() const;
  /// Removes or cuts what there is.
  void begin(std::optional<GoesOn> goes_on);
  /// Appends an event, and makes folder and file if it is the first.
  void write(std::string_view event);
  /// Warns the user of `training` of a file that was taken away (watched_name.h).
  void look(Training& training) { named_.look(owner_, training); }
  void close();

 private:
  [[nodiscard]] std::vector<std::filesystem::path> files() const;
  void cut(const GoesOn& goes_on);
  void open();
  void append(std::string_view event);
  void check_stream(const char* what) const;

  std::string owner_;
  std::filesystem::path folder_;
  std::optional<GoesOn> goes_on_;
  std::filesystem::path file_;
  WatchedName named_;
  std::ofstream stream_;
};

}  // namespace meshwork

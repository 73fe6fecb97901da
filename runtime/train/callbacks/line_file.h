// LineFile: a file of a callback's, of a line each epoch, that the root writes and flushes line by
// line. A run that goes on drops the lines of epochs that are trained again, so that there is
// neither a gap nor a double.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace meshwork {

class LineFile {
 public:
  /// The epoch of a line, from 0; none for a heading.
  using EpochOf = std::function<std::optional<std::int64_t>(std::string_view line)>;

  /// `owner` begins messages: "CSVLogger".
  LineFile(std::string owner, std::filesystem::path file)
      : owner_(std::move(owner)), file_(std::move(file)) {}

  /// Throws `Error` if the file could not be written (output_place.h), where the folder `to_come` will
  /// be made. Changes nothing.
  void check(const std::filesystem::path& to_come) const;
  /// Opens an empty file.
  void replace();
  /// Opens the file to write below the lines that are there, and gives the first of these, or "". Of
  /// them those of epoch `end` and later are cut off, and what follows the last complete one.
  std::string append(std::optional<std::int64_t> end, const EpochOf& epoch_of);
  void write(const std::string& line);
  void close();

  [[nodiscard]] const std::filesystem::path& path() const { return file_; }

 private:
  void open(std::ios::openmode mode);
  void check_stream(const char* what) const;

  std::string owner_;
  std::filesystem::path file_;
  std::ofstream stream_;
};

}  // namespace meshwork

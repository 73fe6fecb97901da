// CsvScanner: the rows of a CSV file, plain or gzipped, one after the other.
//
// A row is a line: values with a separator between them. A value that begins with a double quote goes
// to the next one; within it two quotes stand for one, and separators and line ends are part of it
// (RFC 4180). Lines end with a line feed, or a carriage return and one. Empty lines and the mark of
// UTF-8 at the beginning are passed over. Every value knows where it stands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "collectives/error.h"
#include "runtime/data/gzip_stream.h"

namespace meshwork {

/// Whether `stored` bytes that unpack to `unpacked` are made to fill memory, and hold no table.
[[nodiscard]] constexpr bool is_out_of_proportion(std::int64_t unpacked, std::int64_t stored) {
  return unpacked > std::int64_t{4} << 30 && stored < unpacked / 1000;
}

struct CsvValue {
  std::string text;
  bool quoted = false;
  std::int64_t line = 1;
  std::int64_t column = 1;  // in characters, from 1, as the line
};

class CsvScanner {
 public:
  static constexpr std::size_t longest_row = std::size_t{16} << 20;  // bytes
  static constexpr std::size_t most_values = std::size_t{1} << 17;   // in a row

  /// Opens `path`. Throws what GzipStream does.
  CsvScanner(const std::filesystem::path& path, char separator);

  /// The next row; it stays until the next call. Empty at the end of the file. Throws `Error`
  /// "FILE:LINE:COLUMN: ..." for a quote without an end, for what follows one, for bytes that are no
  /// text, and for a row that is longer than any; and where a signal asks the process to stop, or the
  /// file unpacks out of proportion.
  [[nodiscard]] std::span<const CsvValue> next();

  [[nodiscard]] std::int64_t file_bytes() const { return stream_.file_bytes(); }

  /// Throws an `Error` about the place of `value`.
  template <class... Arguments>
  [[noreturn]] void fail_at(const CsvValue& value, fmt::format_string<Arguments...> format,
                            Arguments&&... arguments) const {
    fail("{}:{}:{}: {}", name_, value.line, value.column,
         fmt::format(format, std::forward<Arguments>(arguments)...));
  }

 private:
  static constexpr int end = -1;
  [[nodiscard]] int peek();
  void fill();
  void skip_empty_lines();
  int take();
  bool take_line_end();
  CsvValue& begin_value();
  void read_quoted(CsvValue& value);
  void append(CsvValue& value, int letter);

  std::string name_;
  char separator_;
  GzipStream stream_;
  std::vector<char> buffer_;
  std::size_t at_ = 0, filled_ = 0;
  std::int64_t unpacked_ = 0;  // bytes
  std::int64_t line_ = 1, column_ = 1;
  std::vector<CsvValue> values_;  // kept, for their memory
  std::size_t count_ = 0;         // of this row
  std::size_t row_bytes_ = 0;
};

}  // namespace meshwork

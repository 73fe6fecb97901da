// Tables for a terminal, and texts and numbers as JSON has them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace meshwork {

/// Rows of cells under a heading, each column as wide as its widest cell; the columns in `numbers`
/// are set flush right. Every row has as many cells as the heading.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> heading, std::vector<std::size_t> numbers = {});
  void add(std::vector<std::string> row);
  /// A line across the columns.
  void add_line(std::string line);
  /// With `indent` spaces before every line. On lines of at most `width` columns, if that is not 0:
  /// columns of words become narrower then, and their cells several lines; columns that find no
  /// room even so stand in a further table, behind the first column.
  [[nodiscard]] std::string text(std::size_t indent = 2, std::size_t width = 0) const;

 private:
  /// The first column, and those from `begin` to `end`.
  [[nodiscard]] TextTable part(std::size_t begin, std::size_t end) const;

  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> numbers_;
};

/// `text` with its lines broken at spaces where they are longer than `width` columns, if that is
/// not 0, and what is broken off further in.
[[nodiscard]] std::string wrapped(std::string_view text, std::size_t width);

/// `text` in quotes, with what JSON does not take as it is escaped.
[[nodiscard]] std::string json_text(std::string_view text);
/// With as many digits as give the number back; what is not finite, which JSON does not have, is
/// a text: "nan", "inf".
[[nodiscard]] std::string json_number(double number);

}  // namespace meshwork

#include "runtime/config/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace meshwork {

TextTable::TextTable(std::vector<std::string> heading, std::vector<std::size_t> numbers)
    : numbers_(std::move(numbers)) {
  add(std::move(heading));
}

void TextTable::add(std::vector<std::string> row) {
  rows_.push_back(std::move(row));
}

std::string TextTable::text(std::size_t indent) const {
  std::vector<std::size_t> widths(rows_[0].size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c) {
      widths[c] = std::max(widths[c], row[c].size());
    }
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line(indent, ' ');
    for (std::size_t c = 0; c < row.size(); ++c) {
      const bool number = std::count(numbers_.begin(), numbers_.end(), c) > 0;
      line += number ? fmt::format("{:>{}}  ", row[c], widths[c])
                     : fmt::format("{:<{}}  ", row[c], widths[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string json_number(double number) {
  return std::isfinite(number) ? fmt::format("{}", number) : fmt::format("\"{}\"", number);
}

}  // namespace meshwork

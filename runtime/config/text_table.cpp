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

void TextTable::add_line(std::string line) {
  rows_.push_back({std::move(line)});
}

namespace {

constexpr std::size_t between_columns = 2;
constexpr std::size_t narrowest = 8;  // that a column of words becomes

// How much of `text` goes on a line of `width` columns: until behind a place where it may be
// broken.
std::size_t line_length(std::string_view text, std::size_t width) {
  if (text.size() <= width) return text.size();
  const std::size_t place = text.find_last_of(" ,/_=", width - 1);
  if (text[width] == ' ') return width;
  return place == std::string_view::npos || place < width / 3 ? width : place + 1;
}

// `text` on lines of `width` columns.
std::vector<std::string> lines_of(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  while (!text.empty() || lines.empty()) {
    const std::size_t length = line_length(text, width);
    lines.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
    while (text.starts_with(' ')) text.remove_prefix(1);
  }
  return lines;
}

}  // namespace

TextTable TextTable::part(std::size_t begin, std::size_t end) const {
  std::vector<std::size_t> numbers;
  for (const std::size_t column : numbers_) {
    if (column == 0) numbers.push_back(0);
    if (column >= begin && column < end) numbers.push_back(column - begin + 1);
  }
  TextTable part({}, std::move(numbers));
  part.rows_.clear();
  for (const auto& row : rows_) {
    std::vector<std::string> cells{row[0]};
    for (std::size_t c = begin; c < end && c < row.size(); ++c) cells.push_back(row[c]);
    part.rows_.push_back(std::move(cells));
  }
  return part;
}

std::string TextTable::text(std::size_t indent, std::size_t width) const {
  const auto is_number = [&](std::size_t column) {
    return std::count(numbers_.begin(), numbers_.end(), column) > 0;
  };
  const auto is_line = [&](const std::vector<std::string>& row) {
    return row.size() < rows_[0].size();
  };
  std::vector<std::size_t> widths(rows_[0].size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size() && !is_line(row); ++c) {
      widths[c] = std::max(widths[c], row[c].size());
    }
  }
  const auto total = [&] {
    std::size_t columns = indent + between_columns * (widths.size() - 1);
    for (const std::size_t one : widths) columns += one;
    return columns;
  };
  while (width > 0 && total() > width) {
    std::size_t widest = widths.size();
    for (std::size_t c = 0; c < widths.size(); ++c) {
      const bool wider = widest == widths.size() || widths[c] > widths[widest];
      if (!is_number(c) && widths[c] > narrowest && wider) widest = c;
    }
    if (widest == widths.size()) break;
    --widths[widest];
  }
  if (width > 0 && total() > width && widths.size() > 2) {
    std::size_t fitting = 1, columns = indent + widths[0];
    while (columns + between_columns + widths[fitting] <= width) {
      columns += between_columns + widths[fitting++];
    }
    fitting = std::max<std::size_t>(fitting, 2);
    return part(1, fitting).text(indent, width) + part(fitting, widths.size()).text(indent, width);
  }
  std::string text;
  for (const auto& row : rows_) {
    if (is_line(row)) {
      text += std::string(indent, ' ') + row[0] + '\n';
      continue;
    }
    std::vector<std::vector<std::string>> cells;
    std::size_t height = 1;
    for (std::size_t c = 0; c < row.size(); ++c) {
      cells.push_back(lines_of(row[c], widths[c]));
      height = std::max(height, cells.back().size());
    }
    for (std::size_t i = 0; i < height; ++i) {
      std::string line(indent, ' ');
      for (std::size_t c = 0; c < row.size(); ++c) {
        const std::string cell = i < cells[c].size() ? cells[c][i] : "";
        line += is_number(c) ? fmt::format("{:>{}}  ", cell, widths[c])
                             : fmt::format("{:<{}}  ", cell, widths[c]);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + '\n';
    }
  }
  return text;
}

std::string wrapped(std::string_view text, std::size_t width) {
  std::string all;
  while (!text.empty()) {
    std::string line(text.substr(0, text.find('\n')));
    const bool ended = line.size() < text.size();
    text.remove_prefix(line.size() + (ended ? 1 : 0));
    const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
    const std::string indent(begin + 2, ' ');
    while (width > 0 && line.size() > width) {
      const std::size_t place = line.rfind(' ', width);
      if (place == std::string::npos || place <= line.find_first_not_of(' ')) break;
      all += line.substr(0, place) + '\n';
      line = indent + line.substr(place + 1);
    }
    all += line + (ended ? "\n" : "");
  }
  return all;
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

#include "runtime/data/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

#include "collectives/error.h"
#include "collectives/joined_text.h"
#include "collectives/path_text.h"
#include "collectives/printable.h"
#include "collectives/with_type.h"
#include "runtime/config/character.h"
#include "runtime/config/nearest.h"
#include "runtime/config/node.h"
#include "runtime/data/csv_scanner.h"
#include "runtime/data/sample_copy.h"
#include "runtime/data/written_source.h"

namespace meshwork {
namespace {

// Checkpoints keep categories: the bytes of a text, and the texts of a table.
constexpr std::size_t longest_category = 256;
constexpr std::size_t most_of_table = std::size_t{1} << 18;

// What is wrong with `text` as a category, or as the name of a column of categories; "" if nothing.
std::string problem_of_category(std::string_view text) {
  if (!is_one_line_of_letters(text)) {
    return "a category is one line of UTF-8, without control characters";
  }
  if (text.size() > longest_category) {
    return fmt::format("a category has {} bytes at most, and this one has {}", longest_category,
                       text.size());
  }
  return "";
}

// "column "x"", and what is wrong with this name as that of categories.
void check_name_of_categories(std::string_view name) {
  if (const std::string problem = problem_of_category(name); !problem.empty()) {
    fail("column {}: the name of {}", in_quotes(name), problem);
  }
}

// Whole numbers up to here are exact as doubles.
constexpr double largest_whole = 0x1p53;

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>()(text);
  }
};

std::string_view without_spaces(std::string_view text) {
  constexpr std::string_view spaces = " \t";
  const std::size_t begin = text.find_first_not_of(spaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(spaces) + 1 - begin);
}

// Whether the decimal number `text`, which no double is near to, is below all of them, not beyond.
bool is_below_doubles(std::string_view text) {
  const std::size_t mark = text.find_first_of("eE");
  const std::string_view digits = text.substr(0, mark);
  std::int64_t exponent = 0;
  if (mark != std::string_view::npos) {
    text.remove_prefix(mark + 1);
    const bool negative = text.starts_with('-');
    if (text.starts_with('+')) text.remove_prefix(1);
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), exponent);
    if (parsed.ec == std::errc::result_out_of_range) return negative;
  }
  const auto point = static_cast<std::int64_t>(std::min(digits.find('.'), digits.size()));
  return exponent < static_cast<std::int64_t>(digits.find_first_of("123456789")) - point;
}

// The number that `text` is, which may be infinite or none (nan).
std::optional<double> number_of(std::string_view text) {
  text = without_spaces(text);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  double number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || end != text.data() + text.size()) return std::nullopt;
  if (problem == std::errc::result_out_of_range) {
    if (!is_below_doubles(text)) return HUGE_VAL;
    // 0 in float32, and no whole number.
    constexpr double smallest = std::numeric_limits<double>::denorm_min();
    return text[0] == '-' ? -smallest : smallest;
  }
  return problem == std::errc() ? std::optional(number) : std::nullopt;
}

// "1,5" and "1.234,5", as half of the world writes them.
bool has_decimal_comma(std::string_view text) {
  std::string other(without_spaces(text));
  const std::size_t comma = other.rfind(',');
  if (comma == std::string::npos) return false;
  std::erase(other, '.');
  std::ranges::replace(other, ',', '.');
  return number_of(other).has_value();
}

// Where a column is: in which file of the table, and where in its rows.
struct CsvPlace {
  std::size_t file = 0, index = 0;
};

// A file of the table, while it is read.
struct CsvFile {
  CsvFile(const std::filesystem::path& path, char separator)
      : scanner(path, separator), name(in_one_line(path.string())) {}

  CsvScanner scanner;
  std::string name;
  std::vector<std::string> columns;
  std::vector<CsvValue> header;   // their names' places; none if the file has no header
  std::span<const CsvValue> row;  // that is read
};

// A column that is used, while the table is read.
class CsvColumn {
 public:
  CsvColumn(std::string name, CsvPlace place, const CsvTable& table)
      : name_(std::move(name)), place_(place) {
    const auto asked = table.categories.columns.find(name_);
    const Categories* const known =
        table.known != nullptr ? find_categories(*table.known, name_) : nullptr;
    if (asked != table.categories.columns.end() && asked->second) {
      fix(*asked->second, "those that are given");
    } else if (known != nullptr) {
      fix(known->texts, "those of the training data");
    } else if (asked != table.categories.columns.end()) {
      kind_ = Kind::texts;
    } else if (table.known != nullptr) {
      kind_ = Kind::numbers;
    }
  }

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] CsvPlace place() const { return place_; }

  void add(const CsvScanner& scanner, const CsvValue& value) {
    if (kind_ == Kind::unknown) {
      if (value.text.empty()) {
        if (empty_ == 0) first_empty_ = value;
        ++empty_;
        return;
      }
      kind_ = number_of(value.text) ? Kind::numbers : Kind::texts;
      first_ = value;
      if (empty_ > 0 && kind_ == Kind::numbers) fail_missing(scanner, first_empty_);
      for (; empty_ > 0; --empty_) add_text(scanner, first_empty_);
    }
    kind_ == Kind::numbers ? add_number(scanner, value) : add_text(scanner, value);
  }

  /// The end of the table.
  void finish(const CsvScanner& scanner) {
    if (empty_ > 0) {
      scanner.fail_at(first_empty_, "column {} has no values", in_quotes(name_));
    }
    if (kind_ != Kind::texts || fixed_) return;
    std::vector<std::int32_t> order(texts_.size()), place(texts_.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](std::int32_t i) -> const std::string& {
      return texts_[static_cast<std::size_t>(i)];
    });
    std::vector<std::string> sorted;
    for (std::size_t i = 0; i < order.size(); ++i) {
      place[static_cast<std::size_t>(order[i])] = static_cast<std::int32_t>(i);
      sorted.push_back(std::move(texts_[static_cast<std::size_t>(order[i])]));
    }
    texts_ = std::move(sorted);
    for (double& number : values_) number = place[static_cast<std::size_t>(number)];
    numbers_of_texts_.clear();
  }

  [[nodiscard]] bool is_texts() const { return kind_ == Kind::texts; }
  [[nodiscard]] const std::vector<std::string>& texts() const { return texts_; }
  [[nodiscard]] const std::vector<double>& values() const { return values_; }
  /// The narrowest type that holds all values.
  [[nodiscard]] ElementType type() const {
    if (!whole_ || std::max(-low_, high_) > largest_whole) return ElementType::float32;
    using Int32 = std::numeric_limits<std::int32_t>;
    return low_ >= Int32::min() && high_ <= Int32::max() ? ElementType::int32 : ElementType::int64;
  }

 private:
  enum class Kind { unknown, numbers, texts };

  void fix(const std::vector<std::string>& texts, const char* whose) {
    kind_ = Kind::texts;
    fixed_ = whose;
    check_name_of_categories(name_);
    if (texts.size() > most_categories) {
      fail("column {}: {} categories, {}; {} are the most", in_quotes(name_), texts.size(), whose,
           most_categories);
    }
    for (const std::string& text : texts) {
      if (const std::string problem = problem_of_category(text); !problem.empty()) {
        fail("column {}: {}: {}", in_quotes(name_), in_quotes(text), problem);
      }
      if (!numbers_of_texts_.try_emplace(text, static_cast<std::int32_t>(texts_.size())).second) {
        fail("column {}: the category {} is given twice", in_quotes(name_), in_quotes(text));
      }
      texts_.push_back(text);
    }
  }

  [[noreturn]] void fail_missing(const CsvScanner& scanner, const CsvValue& value) const {
    scanner.fail_at(value, "column {} has no number here; add one, or delete the row",
                    in_quotes(name_));
  }

  void add_number(const CsvScanner& scanner, const CsvValue& value) {
    const std::optional<double> number = number_of(value.text);
    if (!number) {
      if (without_spaces(value.text).empty()) fail_missing(scanner, value);
      if (has_decimal_comma(value.text)) fail_comma(scanner, value);
      scanner.fail_at(value,
                      "{} is no number, but column {} holds numbers{}; if it holds texts, name it "
                      "under `categories`",
                      in_quotes(value.text), in_quotes(name_), from_first());
    }
    // In float32, in which it is computed.
    if (!std::isfinite(static_cast<float>(*number))) {
      scanner.fail_at(value, "{} in column {} is no finite number of float32",
                      in_quotes(value.text), in_quotes(name_));
    }
    whole_ = whole_ && *number == std::trunc(*number);
    low_ = std::min(low_, *number);
    high_ = std::max(high_, *number);
    values_.push_back(*number);
  }

  void add_text(const CsvScanner& scanner, const CsvValue& value) {
    auto found = numbers_of_texts_.find(std::string_view(value.text));
    if (found == numbers_of_texts_.end()) {
      if (fixed_ != nullptr) {
        scanner.fail_at(value, "{} in column {} is not among its {} categories, {}{}",
                        in_quotes(value.text), in_quotes(name_), texts_.size(), fixed_,
                        did_you_mean(value.text, texts_));
      }
      if (first_) {  // nobody has said that the column holds texts
        if (has_decimal_comma(value.text)) fail_comma(scanner, value);
        if (number_of(value.text)) {
          scanner.fail_at(value,
                          "{} is a number, but column {} holds texts{}; if this is one too, name "
                          "the column under `categories`",
                          in_quotes(value.text), in_quotes(name_), from_first());
        }
      }
      // Names that others see, in checkpoints and messages.
      if (texts_.empty()) check_name_of_categories(name_);
      if (const std::string problem = problem_of_category(value.text); !problem.empty()) {
        scanner.fail_at(value, "{} in column {}: {}", in_quotes(value.text), in_quotes(name_),
                        problem);
      }
      if (texts_.size() == most_categories) {
        scanner.fail_at(value, "{} in column {}: this is another category, and {} are the most",
                        in_quotes(value.text), in_quotes(name_), most_categories);
      }
      found = numbers_of_texts_.emplace(value.text, static_cast<std::int32_t>(texts_.size())).first;
      texts_.push_back(value.text);
    }
    high_ = std::max(high_, static_cast<double>(found->second));
    values_.push_back(found->second);
  }

  [[noreturn]] void fail_comma(const CsvScanner& scanner, const CsvValue& value) const {
    scanner.fail_at(value, "{} in column {}: numbers are written with a point",
                    in_quotes(value.text), in_quotes(name_));
  }
  // Where the kind of the column comes from.
  [[nodiscard]] std::string from_first() const {
    return first_ ? fmt::format(" from line {} on, {}", first_->line, in_quotes(first_->text))
                  : std::string();
  }

  std::string name_;
  CsvPlace place_;
  Kind kind_ = Kind::unknown;
  std::optional<CsvValue> first_;  // that is not empty, if it decides about the kind
  CsvValue first_empty_;
  std::int64_t empty_ = 0;  // before that
  const char* fixed_ = nullptr;
  std::unordered_map<std::string, std::int32_t, TextHash, std::equal_to<>> numbers_of_texts_;
  std::vector<std::string> texts_;
  std::vector<double> values_;  // numbers of texts, too
  bool whole_ = true;
  double low_ = 0, high_ = 0;
};

std::string names_of(const std::deque<CsvFile>& files) {
  std::string names;
  for (const CsvFile& file : files) names += (names.empty() ? "" : ", ") + file.name;
  return names;
}

// Reads a header of each file.
void read_headers(std::deque<CsvFile>& files) {
  for (CsvFile& file : files) {
    const std::span<const CsvValue> header = file.scanner.next();
    if (header.empty()) {
      fail("{}: is empty; names of columns are expected in its first line", file.name);
    }
    file.header.assign(header.begin(), header.end());
    for (const CsvValue& value : header) file.columns.push_back(value.text);
  }
}

// Reads the first row of each file, whose columns have the names `given`, file by file.
void take_names(std::deque<CsvFile>& files, const std::vector<std::string>& given) {
  std::size_t width = 0;
  std::vector<std::string> first;
  for (CsvFile& file : files) {
    file.row = file.scanner.next();
    if (file.row.empty()) fail("{}: is empty; rows of values are expected", file.name);
    width += file.row.size();
    for (const CsvValue& value : file.row) first.push_back(value.text);
  }
  if (width != given.size()) {
    fail("{}: `columns` names {} columns, but the first row has {} values", names_of(files),
         given.size(), width);
  }
  if (first == given) {
    fail("{}: the first line has the names that `columns` gives; leave `columns` out",
         names_of(files));
  }
  auto name = given.begin();
  for (CsvFile& file : files) {
    const auto end = name + std::ssize(file.row);
    file.columns.assign(name, end);
    name = end;
  }
}

// The columns that the files have, by name.
class CsvNames {
 public:
  explicit CsvNames(const std::deque<CsvFile>& files) : files_(&files) {
    for (std::size_t f = 0; f < files.size(); ++f) {
      for (std::size_t i = 0; i < files[f].columns.size(); ++i) {
        const auto [entry, is_first] =
            entries_.try_emplace(files[f].columns[i], Entry{{f, i}, std::nullopt});
        if (!is_first && !entry->second.second) entry->second.second = {f, i};
      }
    }
  }

  /// Where the column `name` is. Throws unless it is there once.
  [[nodiscard]] CsvPlace place(const std::string& name) const {
    const auto found = entries_.find(name);
    if (found == entries_.end()) fail_unknown(name);
    if (const std::optional<CsvPlace>& again = found->second.second) {
      const CsvFile& file = (*files_)[again->file];
      if (file.header.empty()) {
        fail("{}: `columns` names {} twice", names_of(*files_), in_quotes(name));
      }
      file.scanner.fail_at(file.header[again->index], "there are two columns {}", in_quotes(name));
    }
    return found->second.first;
  }

 private:
  struct Entry {
    CsvPlace first;
    std::optional<CsvPlace> second;
  };

  [[noreturn]] void fail_unknown(const std::string& name) const {
    std::vector<std::string> names;
    for (const CsvFile& file : *files_) {
      names.insert(names.end(), file.columns.begin(), file.columns.end());
    }
    const bool has_values = std::ranges::all_of(
        names, [](const std::string& text) { return number_of(text).has_value(); });
    fail("{}: there is no column {}{}; it has {}{}", names_of(*files_), in_quotes(name),
         has_values ? "" : did_you_mean(name, names),
         quoted_list(std::span(names).first(std::min<std::size_t>(names.size(), 50))),
         has_values ? "; if its first line has no names, give them under `columns`" : "");
  }

  const std::deque<CsvFile>* files_;
  std::unordered_map<std::string_view, Entry> entries_;
};

// The columns that are used.
class CsvColumns {
 public:
  CsvColumns(const std::deque<CsvFile>& files, const CsvNames& names, const CsvTable& table,
             const std::vector<CsvField>& fields) {
    for (const CsvField& field : fields) {
      for (const std::string& name : field.columns) {
        if (by_name_.try_emplace(name, all_.size()).second) {
          all_.emplace_back(name, names.place(name), table);
        }
      }
    }
    for (const auto& [name, texts] : table.categories.columns) {
      (void)names.place(name);
      if (!by_name_.contains(name)) {
        fail("{}: column {} is named under `categories` and used by no field", names_of(files),
             in_quotes(name));
      }
    }
  }

  [[nodiscard]] std::vector<CsvColumn>& all() { return all_; }
  [[nodiscard]] const CsvColumn* find(const std::string& name) const {
    return &all_[by_name_.at(name)];
  }

 private:
  std::vector<CsvColumn> all_;
  std::unordered_map<std::string, std::size_t> by_name_;
};

// Whether the row that is read is one of values, and not the end, of all files.
bool is_row(const std::deque<CsvFile>& files, std::int64_t rows) {
  for (const CsvFile& file : files) {
    if (file.row.empty() != files[0].row.empty()) {
      const CsvFile& shorter = file.row.empty() ? file : files[0];
      fail("{}: has {} rows, fewer than {}; files side by side have the same rows", shorter.name,
           rows, (file.row.empty() ? files[0] : file).name);
    }
    const std::size_t width = file.columns.size();
    if (file.row.empty() || file.row.size() == width) continue;
    file.scanner.fail_at(
        file.row[std::min(file.row.size() - 1, width)], "the row has {} values, but {} {}",
        file.row.size(), file.header.empty() ? "the first one has" : "the header names",
        file.header.empty() ? fmt::format("{}", width) : fmt::format("{} columns", width));
  }
  return !files[0].row.empty();
}

// The type of a field of these columns, which is `exact` or not.
ElementType type_of(std::span<const CsvColumn* const> columns, bool exact) {
  ElementType type = ElementType::int32;
  for (const CsvColumn* column : columns) {
    if (column->type() == ElementType::float32) {
      return exact ? ElementType::float64 : ElementType::float32;
    }
    if (column->type() == ElementType::int64) type = ElementType::int64;
  }
  return type;
}

std::vector<std::byte> values_of_field(std::span<const CsvColumn* const> columns,
                                       ElementType type) {
  const std::size_t rows = columns[0]->values().size();
  std::vector<std::byte> bytes(rows * columns.size() *
                               static_cast<std::size_t>(element_bytes(type)));
  with_type(type, [&](auto zero) {
    using Value = decltype(zero);
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const std::vector<double>& values = columns[c]->values();
      for (std::size_t row = 0; row < rows; ++row) {
        const auto value = static_cast<Value>(values[row]);
        std::memcpy(bytes.data() + (row * columns.size() + c) * sizeof(Value), &value,
                    sizeof(Value));
      }
    }
  });
  return bytes;
}

}  // namespace

CsvSource::CsvSource(const CsvTable& table, const std::vector<CsvField>& fields)
    : CsvSource(with_memory_for(table.path.string(), [&] { return read_table(table, fields); })) {}

CsvSource::CsvSource(Read read)
    : Source(read.places[0].shape[0], sample_fields(read.places), read.files[0].string()),
      read_(std::move(read)) {}

CsvSource::Read CsvSource::read_table(const CsvTable& table, const std::vector<CsvField>& fields) {
  for (const CsvField& field : fields) {
    if (field.columns.empty()) fail("field \"{}\" has no columns", field.name);
  }
  if (fields.empty()) fail("{}: no fields were given", table.path);
  std::deque<CsvFile> files;
  files.emplace_back(table.path, table.separator);
  for (const auto& path : table.beside) files.emplace_back(path, table.separator);
  const auto next_row = [&] {
    for (CsvFile& file : files) file.row = file.scanner.next();
  };
  Read read{.files = {table.path}};
  read.files.insert(read.files.end(), table.beside.begin(), table.beside.end());
  if (table.columns.empty()) {
    read_headers(files);
    next_row();
    read.first_line = 2;
  } else {
    take_names(files, table.columns);
  }
  const CsvNames names_in_files(files);
  CsvColumns columns(files, names_in_files, table, fields);
  const std::optional<CsvPlace> texts =
      table.texts.empty() ? std::nullopt : std::optional(names_in_files.place(table.texts));
  std::int64_t rows = 0;
  for (; is_row(files, rows); next_row()) {
    for (CsvColumn& column : columns.all()) {
      const CsvFile& file = files[column.place().file];
      column.add(file.scanner, file.row[column.place().index]);
    }
    if (texts) read.texts.push_back(files[texts->file].row[texts->index].text);
    for (const CsvFile& file : files) {
      read.row_a_line = read.row_a_line && file.row[0].line == rows + read.first_line;
    }
    ++rows;
  }
  std::size_t categories = 0;
  for (CsvColumn& column : columns.all()) {
    column.finish(files[column.place().file].scanner);
    if (!column.is_texts()) continue;
    categories += column.texts().size();
    read.categories.push_back({column.name(), column.texts()});
  }
  if (categories > most_of_table) {
    fail("{}: the columns have {} categories, and {} are the most", names_of(files), categories,
         most_of_table);
  }
  for (const CsvField& field : fields) {
    std::vector<const CsvColumn*> of_field;
    std::set<std::size_t> used;  // of the files
    for (const std::string& name : field.columns) {
      of_field.push_back(columns.find(name));
      used.insert(of_field.back()->place().file);
    }
    PlacedField place{.name = field.name,
                      .role = field.role,
                      .shape = {rows},
                      .type = type_of(of_field, field.exact)};
    for (const std::size_t f : used) {
      place.place += (place.place.empty() ? "" : ",") + files[f].name;
      place.file_bytes += files[f].scanner.file_bytes();
    }
    read.in_one_file.push_back(used.size() == 1 ? place.place : std::string());
    place.place += ":" + joined_text(field.columns, ",");
    const bool vector = field.vector || of_field.size() > 1;
    if (vector) place.shape.push_back(static_cast<std::int64_t>(of_field.size()));
    read.values.push_back(values_of_field(of_field, place.type));
    read.text_columns.push_back(
        of_field.size() == 1 && of_field[0]->is_texts() ? of_field[0]->name() : std::string());
    read.places.push_back(std::move(place));
  }
  return read;
}

std::string CsvSource::locate(int field, std::int64_t row) const {
  const auto at = static_cast<std::size_t>(field);
  if (read_.row_a_line && !read_.in_one_file[at].empty()) {
    return fmt::format("{}:{}", read_.in_one_file[at], row + read_.first_line);
  }
  return fmt::format("{}: sample {}", read_.places[at].place, row);
}

std::int64_t CsvSource::classes_by_construction(int field) const {
  return std::ssize(texts_of(field));
}

std::span<const std::string> CsvSource::texts_of(int field) const {
  const Categories* found =
      find_categories(read_.categories, read_.text_columns[static_cast<std::size_t>(field)]);
  return found != nullptr ? std::span<const std::string>(found->texts)
                          : std::span<const std::string>();
}

std::string CsvSource::fingerprint() const {
  std::string text = fingerprint_of("csv", read_.places);
  for (const Categories& categories : read_.categories) {
    text += "; categories of " + to_text(categories);
  }
  return text;
}

std::vector<std::filesystem::path> CsvSource::files() const {
  return read_.files;
}

void CsvSource::read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                          std::byte* destination) const {
  const Field& description = this->field(field);
  copy_samples(read_.values[static_cast<std::size_t>(field)].data(), description.shape,
               element_bytes(description.type), rows, block, destination);
}

// ---- as configurations write it ------------------------------------------------------------------

void from_config(const ConfigNode& node, CsvCategories& categories) {
  categories.columns.clear();
  if (node.is_map()) {
    for (const ConfigEntry& entry : node.entries()) {
      categories.columns[entry.name] = entry.value.as<std::optional<std::vector<std::string>>>();
      entry.value.located([&] { check_name_of_categories(entry.name); });
      if (!entry.value.is_sequence()) continue;
      for (const ConfigNode& text : entry.value.elements()) {
        const auto name = text.as<std::string>();
        const std::string problem = problem_of_category(name);
        if (!problem.empty()) text.fail("{}: {}", in_quotes(name), problem);
      }
    }
    return;
  }
  for (const std::string& name : node.as<std::vector<std::string>>()) {
    categories.columns[name] = std::nullopt;
  }
}

std::string to_text(const CsvCategories& categories) {
  std::string text;
  for (const auto& [name, texts] : categories.columns) text += (text.empty() ? "" : ", ") + name;
  return "[" + text + "]";
}

namespace {

struct CsvOptions {
  Written<"a file name, or a list of files with the same rows"> file;
  std::vector<std::string> columns;
  Written<"a column, or a list of columns; of several inputs: a map of these by their names">
      features;
  std::optional<
      Written<"a column, or a list of columns; of several outputs: a map of these by "
              "their names">>
      targets;
  std::optional<Written<"a column">> weights;
  char separator = ',';
  CsvCategories categories;
};

template <class Visitor>
void describe(CsvOptions& options, Visitor& option) {
  option.about("tables, also gzipped; each rank reads the whole table into memory");
  option.required("file", options.file, "the CSV file; or several, whose columns are one table");
  option("columns", options.columns, "names of the columns, for files without a header");
  option.required("features", options.features, "columns of the features");
  option("targets", options.targets, "columns of the targets");
  describe_weights(options.weights, option, "a column");
  option("separator", options.separator, "character between values");
  option("categories", options.categories,
         "columns of texts that may look like numbers, with their texts in order of class numbers");
}

}  // namespace

CsvField read_csv_field(const ConfigNode& node, const std::string& name, FieldRole role) {
  if (!node.is_sequence()) return {name, {node.as<std::string>()}, false, role};
  const auto columns = node.as<std::vector<std::string>>();
  if (columns.empty()) node.fail("the list is empty; expected names of columns");
  return {name, columns, true, role};
}

namespace {

std::shared_ptr<const Source> open_csv(const ConfigNode& node, const CsvOptions& options,
                                       const SourceContext& context) {
  if (const char s = options.separator; s == '"' || s == '\n' || s == '\r') {
    node.find("separator")->fail("this character has another meaning in CSV files");
  }
  const auto files = one_or_more<std::filesystem::path>(*options.file.node, "names of files");
  const bool by_name = options.features.node->is_map();
  const auto source =
      std::make_shared<CsvSource>(CsvTable{.path = files[0],
                                           .beside = {files.begin() + 1, files.end()},
                                           .separator = options.separator,
                                           .columns = options.columns,
                                           .categories = options.categories,
                                           .known = context.categories},
                                  fields_of(options, context, by_name, read_csv_field));
  if (options.weights) {
    const ConfigNode& column = *options.weights->node;
    const std::vector<Categories> texts = source->categories();
    if (find_categories(texts, column.as<std::string>()) != nullptr) {
      column.fail("the column holds texts; the weights of samples are numbers");
    }
  }
  return source;
}

}  // namespace

void add_csv(Catalog& catalog) {
  add_source<CsvOptions>(catalog, "csv", open_csv);
}

}  // namespace meshwork

#include "runtime/data/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "collectives/error.h"
#include "collectives/printable.h"
#include "collectives/with_type.h"
#include "runtime/config/character.h"
#include "runtime/config/nearest.h"
#include "runtime/config/node.h"
#include "runtime/data/csv_scanner.h"
#include "runtime/data/sample_copy.h"
#include "runtime/data/source_kinds.h"

namespace meshwork {
namespace {

// Of a text, in bytes, and of their number: they are kept in checkpoints.
constexpr std::size_t longest_category = 256;
constexpr std::size_t most_categories = std::size_t{1} << 20;

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

// The number that `text` is, which may be infinite or none (nan).
std::optional<double> number_of(std::string_view text) {
  text = without_spaces(text);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  double number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || end != text.data() + text.size()) return std::nullopt;
  if (problem == std::errc::result_out_of_range) return HUGE_VAL;
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

// A column that is used, while the table is read.
class CsvColumn {
 public:
  CsvColumn(std::string name, std::size_t index, const CsvTable& table)
      : name_(std::move(name)), index_(index) {
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
  [[nodiscard]] std::size_t index() const { return index_; }

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
    for (const std::string& text : texts) {
      if (!numbers_of_texts_.try_emplace(text, static_cast<std::int32_t>(texts_.size())).second) {
        fail("column {}: the category {} is given twice", in_quotes(name_), in_quotes(text));
      }
      texts_.push_back(text);
    }
  }

  [[noreturn]] void fail_missing(const CsvScanner& scanner, const CsvValue& value) const {
    scanner.fail_at(value, "column {} has no number here; give it one, or leave out the row",
                    in_quotes(name_));
  }

  void add_number(const CsvScanner& scanner, const CsvValue& value) {
    const std::optional<double> number = number_of(value.text);
    if (!number) {
      if (without_spaces(value.text).empty()) fail_missing(scanner, value);
      if (has_decimal_comma(value.text)) fail_comma(scanner, value);
      scanner.fail_at(value,
                      "{} is no number, which column {} holds{}; if it holds texts, name it under "
                      "`categories`",
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
      // A name that others see, in checkpoints and messages.
      if (!is_one_line_of_letters(value.text) || !is_one_line_of_letters(name_)) {
        scanner.fail_at(value,
                        "{} in column {}: a category is one line of UTF-8, without control "
                        "characters",
                        in_quotes(value.text), in_quotes(name_));
      }
      if (value.text.size() > longest_category || texts_.size() == most_categories) {
        scanner.fail_at(value, "{} in column {}: {} texts of {} bytes are the most",
                        in_quotes(value.text), in_quotes(name_), most_categories, longest_category);
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
  std::size_t index_;
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

// Where the column `name` is. Throws unless it is there once.
std::size_t index_of_column(const CsvScanner& scanner, std::span<const CsvValue> header,
                            const CsvTable& table, const std::string& name) {
  std::vector<std::string> names;
  for (const CsvValue& value : header) names.push_back(value.text);
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) {
    fail("{}: there is no column {}{}; it has {}", table.path.string(), in_quotes(name),
         did_you_mean(name, names),
         quoted_list(std::span(names).first(std::min<std::size_t>(names.size(), 50))));
  }
  const auto index = static_cast<std::size_t>(found - names.begin());
  const auto again = std::find(found + 1, names.end(), name);
  if (again != names.end()) {
    scanner.fail_at(header[static_cast<std::size_t>(again - names.begin())],
                    "there are two columns {}", in_quotes(name));
  }
  return index;
}

// The columns of the header that are used.
std::vector<CsvColumn> columns_of(const CsvScanner& scanner, std::span<const CsvValue> header,
                                  const CsvTable& table, const std::vector<CsvField>& fields) {
  const auto index_of = [&](const std::string& name) {
    return index_of_column(scanner, header, table, name);
  };
  std::vector<CsvColumn> columns;
  for (const CsvField& field : fields) {
    for (const std::string& name : field.columns) {
      if (std::ranges::find(columns, name, &CsvColumn::name) == columns.end()) {
        columns.emplace_back(name, index_of(name), table);
      }
    }
  }
  for (const auto& [name, texts] : table.categories.columns) {
    (void)index_of(name);
    if (std::ranges::find(columns, name, &CsvColumn::name) == columns.end()) {
      fail("{}: column {} is named under `categories` and used by no field", table.path.string(),
           in_quotes(name));
    }
  }
  return columns;
}

// The type of a field of these columns.
ElementType type_of(std::span<const CsvColumn* const> columns) {
  ElementType type = ElementType::int32;
  for (const CsvColumn* column : columns) {
    if (column->type() == ElementType::float32) return ElementType::float32;
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
    : Source(read.places[0].shape[0], sample_fields(read.places), read.path.string()),
      read_(std::move(read)) {}

CsvSource::Read CsvSource::read_table(const CsvTable& table, const std::vector<CsvField>& fields) {
  for (const CsvField& field : fields) {
    if (field.columns.empty()) fail("field \"{}\" has no columns", field.name);
  }
  if (fields.empty()) fail("{}: no fields were given", table.path.string());
  CsvScanner scanner(table.path, table.separator);
  const std::span<const CsvValue> header = scanner.next();
  if (header.empty()) {
    fail("{}: is empty; names of columns are expected in its first line", table.path.string());
  }
  const std::size_t width = header.size();
  std::vector<CsvColumn> columns = columns_of(scanner, header, table, fields);
  const std::optional<std::size_t> texts =
      table.texts.empty() ? std::nullopt
                          : std::optional(index_of_column(scanner, header, table, table.texts));
  Read read{.path = table.path};
  std::int64_t rows = 0;
  for (std::span<const CsvValue> row = scanner.next(); !row.empty(); row = scanner.next()) {
    if (row.size() != width) {
      scanner.fail_at(row.size() > width ? row[width] : row[0],
                      "the row has {} values, but the header names {} columns", row.size(), width);
    }
    for (CsvColumn& column : columns) column.add(scanner, row[column.index()]);
    if (texts) read.texts.push_back(row[*texts].text);
    read.row_a_line = read.row_a_line && row[0].line == rows + 2;
    ++rows;
  }
  for (CsvColumn& column : columns) {
    column.finish(scanner);
    if (column.is_texts()) read.categories.push_back({column.name(), column.texts()});
  }
  for (const CsvField& field : fields) {
    std::vector<const CsvColumn*> of_field;
    std::string names;
    for (const std::string& name : field.columns) {
      of_field.push_back(&*std::ranges::find(columns, name, &CsvColumn::name));
      names += (names.empty() ? "" : ",") + name;
    }
    PlacedField place{
        field.name,           field.role, fmt::format("{}:{}", table.path.string(), names),
        scanner.file_bytes(), {rows},     type_of(of_field)};
    const bool vector = field.vector || of_field.size() > 1;
    if (vector) place.shape.push_back(static_cast<std::int64_t>(of_field.size()));
    read.values.push_back(values_of_field(of_field, place.type));
    read.classes.push_back(of_field.size() == 1 && of_field[0]->is_texts()
                               ? static_cast<std::int64_t>(of_field[0]->texts().size())
                               : 0);
    read.places.push_back(std::move(place));
  }
  return read;
}

std::string CsvSource::locate(int field, std::int64_t row) const {
  if (read_.row_a_line) return fmt::format("{}:{}", read_.path.string(), row + 2);
  return fmt::format("{}: sample {}", read_.places[static_cast<std::size_t>(field)].place, row);
}

std::int64_t CsvSource::classes_by_construction(int field) const {
  return read_.classes[static_cast<std::size_t>(field)];
}

std::string CsvSource::fingerprint() const {
  std::string text = fingerprint_of("csv", read_.places);
  for (const Categories& categories : read_.categories) {
    text += "; categories of " + to_text(categories);
  }
  return text;
}

std::vector<std::filesystem::path> CsvSource::files() const {
  return {read_.path};
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
  std::filesystem::path file;
  Written<"a column, or a list of columns; of several inputs: a map of these by their names">
      features;
  std::optional<Written<"a column, or a list of columns">> targets;
  char separator = ',';
  CsvCategories categories;
};

template <class Visitor>
void describe(CsvOptions& options, Visitor& option) {
  option.about("tables with a header, also gzipped; each rank reads the whole table into memory");
  option.required("file", options.file, "the CSV file");
  option.required("features", options.features, "columns of the features");
  option("targets", options.targets, "columns of the targets");
  option("separator", options.separator, "between values");
  option("categories", options.categories,
         "columns of texts that may look like numbers; the texts in the order of their numbers");
}

CsvField read_csv_field(const ConfigNode& node, const std::string& name, FieldRole role) {
  if (!node.is_sequence()) return {name, {node.as<std::string>()}, false, role};
  const auto columns = node.as<std::vector<std::string>>();
  if (columns.empty()) node.fail("the list is empty; expected names of columns");
  return {name, columns, true, role};
}

std::shared_ptr<const Source> open_csv(const ConfigNode& node, const SourceContext& context) {
  const auto options = read_source_options<CsvOptions>(node, "csv");
  if (const char s = options.separator; s == '"' || s == '\n' || s == '\r') {
    node.find("separator")->fail("this character has another meaning in CSV files");
  }
  const bool by_name = options.features.node->is_map();
  return std::make_shared<CsvSource>(CsvTable{.path = options.file,
                                              .separator = options.separator,
                                              .categories = options.categories,
                                              .known = context.categories},
                                     fields_of(options, context.inputs, by_name, read_csv_field));
}

}  // namespace

void add_csv(SourceKinds& kinds) {
  kinds.push_back({"csv", open_csv, {{"csv", explained<CsvOptions>()}}});
}

}  // namespace meshwork

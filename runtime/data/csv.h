// CSV files: tables as text, with the names of the columns in the first line.
//
//     age,bmi,city,price
//     59,32.1,"Paris",151
//
// A table without this line gets its names from the configuration. Several files make one table if
// they have the same rows: the columns of the second then follow those of the first.
//
// A field is one column, or a list of columns that make a vector. A column holds numbers or texts,
// as its first value that is not empty says; every other has to be of the same kind. Texts become
// numbers (categories.h). Numbers that are texts, such as postal codes, are named as categories.
//
// Fields of whole numbers alone are int32, or int64 where they are larger; all others are float32,
// or float64 where nothing may be rounded. A number is written with a point; one that is missing,
// infinite or no number is an error, as every error with file, line and column.
//
// Opening reads the whole table, on every rank, and keeps the columns that are used in memory, 4
// bytes a value (8 of int64); while it reads, 8 more. Files may be gzipped.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/config/node.h"
#include "runtime/data/placed_fields.h"
#include "runtime/data/source.h"

namespace meshwork {

/// One field of a CsvSource.
struct CsvField {
  std::string name;
  std::vector<std::string> columns;
  bool vector = false;  // whether one column makes a vector of one
  FieldRole role = FieldRole::feature;
  bool exact = false;  // numbers that are not whole are float64
};

/// As a configuration writes it: a column, or a list of columns.
[[nodiscard]] CsvField read_csv_field(const ConfigNode& node, const std::string& name,
                                      FieldRole role);

/// Columns of texts as a configuration names them: `[zip]`, or `{city: [Paris, Rome], zip: ~}` with
/// the texts in the order of their numbers.
struct CsvCategories {
  static constexpr const char* expected = "a list of columns, or a map of columns to their texts";
  std::map<std::string, std::optional<std::vector<std::string>>> columns;
};
void from_config(const ConfigNode& node, CsvCategories& categories);
[[nodiscard]] std::string to_text(const CsvCategories& categories);

struct CsvTable {
  std::filesystem::path path;
  std::vector<std::filesystem::path> beside;  // files with the same rows
  char separator = ',';
  std::vector<std::string> columns;  // their names, file by file; empty: each file has a header
  CsvCategories categories;          // of texts, whatever these look like
  std::string texts;                 // a column that is kept as it is; "" for none
  /// Of the training data: where it is there, columns that are not in it hold numbers.
  const std::vector<Categories>* known = nullptr;
};

class CsvSource final : public Source {
 public:
  /// Reads the table. Throws `Error` with the place: a file that is missing or no CSV, a column
  /// that it lacks (with the nearest name) or has twice, a row with more or fewer values than the
  /// header or the first row, a value that is not what its column holds, files with different rows.
  CsvSource(const CsvTable& table, const std::vector<CsvField>& fields);

  [[nodiscard]] std::string locate(int field, std::int64_t row) const override;
  [[nodiscard]] std::int64_t classes_by_construction(int field) const override;
  [[nodiscard]] std::span<const std::string> texts_of(int field) const override;
  [[nodiscard]] std::vector<Categories> categories() const override { return read_.categories; }
  [[nodiscard]] std::string fingerprint() const override;
  [[nodiscard]] std::vector<std::filesystem::path> files() const override;
  /// What stands in the column `texts` of the table, by row.
  [[nodiscard]] const std::vector<std::string>& texts() const { return read_.texts; }

 private:
  struct Read {
    std::vector<std::filesystem::path> files;
    std::vector<PlacedField> places;
    std::vector<std::vector<std::byte>> values;  // by field
    std::vector<std::string> text_columns;       // by field: the column, if it is one of texts
    std::vector<Categories> categories;
    std::vector<std::string> texts;
    std::vector<std::string> in_one_file;  // by field: the file with all of its columns, or ""
    std::int64_t first_line = 1;           // of a sample
    bool row_a_line = true;                // sample r stands in line r + first_line
  };
  explicit CsvSource(Read read);
  static Read read_table(const CsvTable& table, const std::vector<CsvField>& fields);
  void read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                 std::byte* destination) const override;

  Read read_;
};

}  // namespace meshwork

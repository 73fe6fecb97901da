// Source: where samples come from.
//
// A source is a set of `rows` samples. Each sample has the same *fields*: first the features, then
// the targets (of which there may be none, for predict), and last, if samples have weights in a
// loss, these. A field has a name, the shape of one
// sample of it and an element type; values keep that type until the device converts them, so that
// images of uint8 travel as uint8. Row r of every field belongs to sample r.
//
// `read` delivers a *block* of the samples of one field: some rows, in any order, and of each
// sample an interval in every dimension. A rank asks for what its block of a batch needs and a
// source fetches no more than that where its format allows it. `prepare` does beforehand what can
// only be done at once and takes long (unpacking a compressed file), so that a damaged file is an
// error before training begins.
//
// Sources are immutable and shared: `Subset` and the views in views.h wrap one without copying it.
// All member functions may be called from several threads at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/element_type.h"
#include "runtime/data/categories.h"
#include "runtime/mesh/layout.h"
#include "runtime/shape/shape.h"

namespace meshwork {

enum class FieldRole : std::uint8_t { feature, target, weight };

/// What the field of weights is called where nobody says otherwise.
inline constexpr std::string_view weights_name = "sample_weights";

/// One of the values that every sample has.
struct Field {
  std::string name;
  Shape shape;  // of one sample; empty for a scalar
  ElementType type = ElementType::float32;
  FieldRole role = FieldRole::feature;
  bool operator==(const Field&) const = default;
};

/// "images uint8 (28, 28)".
[[nodiscard]] std::string to_string(const Field& field);

class Source {
 public:
  virtual ~Source() = default;

  [[nodiscard]] std::int64_t rows() const { return rows_; }
  /// Whether its samples can be read. Else it has no rows: only its fields are known (stated.h).
  [[nodiscard]] virtual bool readable() const { return true; }
  /// Features first, then targets, then weights; at least one feature, at most one field of weights.
  [[nodiscard]] const std::vector<Field>& fields() const { return fields_; }
  [[nodiscard]] const Field& field(int index) const { return fields_[index]; }
  [[nodiscard]] int field_count() const { return static_cast<int>(fields_.size()); }
  [[nodiscard]] int feature_count() const { return feature_count_; }
  [[nodiscard]] int target_count() const {
    return field_count() - feature_count_ - (weights_field() ? 1 : 0);
  }
  /// The field of the samples' weights, if they have any.
  [[nodiscard]] std::optional<int> weights_field() const {
    return fields_.back().role == FieldRole::weight ? std::optional(field_count() - 1)
                                                    : std::nullopt;
  }
  /// The field called `name`. Throws `Error` naming those there are.
  [[nodiscard]] int index_of(std::string_view name) const;

  /// Writes rows `rows` (any order, repeats allowed) of field `field` to `destination`: of each
  /// sample the elements in `block` (one interval for each dimension of the field's shape),
  /// row-major, without gaps, in the field's element type. `destination` has room for rows.size()
  /// times the block. Throws `WrongInput` naming the file and the place for data that are damaged,
  /// `SystemFailure` where the system does not give them.
  void read(int field, std::span<const std::int64_t> rows, const Block& block,
            void* destination) const;

  /// Does at once what the first `read` of `field` would otherwise wait for, and throws what it
  /// would throw. Does nothing the second time.
  void prepare(int field) const;

  /// Where a value comes from, for messages: "train-labels.gz: sample 17".
  [[nodiscard]] virtual std::string locate(int field, std::int64_t row) const;

  /// n, where every value of `field` is a whole number from 0 to n - 1 by construction, so that
  /// nobody has to look; 0 where that has to be read.
  [[nodiscard]] virtual std::int64_t classes_by_construction(int field) const;

  /// The texts that the values of `field` stand for, by number; none where it did not make numbers
  /// of them.
  [[nodiscard]] virtual std::span<const std::string> texts_of(int field) const;

  /// The texts that its numbers stand for, where it made numbers of them.
  [[nodiscard]] virtual std::vector<Categories> categories() const { return {}; }

  /// A text that differs for different data as far as can be told cheaply: kind, paths, sizes,
  /// shapes and types. A run that is continued compares it with what it began with.
  [[nodiscard]] virtual std::string fingerprint() const = 0;

  /// The files that it reads.
  [[nodiscard]] virtual std::vector<std::filesystem::path> files() const { return {}; }

 protected:
  /// Checks that the fields are a legal list: a feature first, then targets, then one of weights at
  /// most, no name twice, lengths not negative. Throws `Error` beginning with `what` ("data set train.h5").
  Source(std::int64_t rows, std::vector<Field> fields, std::string_view what);
  Source(const Source&) = default;
  Source& operator=(const Source&) = delete;

  /// What `read` does, with arguments that were checked: rows and intervals are inside, and neither
  /// the list of rows nor the block is empty.
  virtual void read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                         std::byte* destination) const = 0;
  /// What `prepare` does.
  virtual void make_ready(int) const {}

 private:
  std::int64_t rows_ = 0;
  std::vector<Field> fields_;
  int feature_count_ = 0;
};

/// A source that shows another one, and says of it what that says.
class View : public Source {
 public:
  [[nodiscard]] std::string locate(int field, std::int64_t row) const override {
    return source_->locate(field, row);
  }
  [[nodiscard]] std::int64_t classes_by_construction(int field) const override {
    return source_->classes_by_construction(field);
  }
  [[nodiscard]] std::span<const std::string> texts_of(int field) const override {
    return source_->texts_of(field);
  }
  [[nodiscard]] std::vector<Categories> categories() const override {
    return source_->categories();
  }
  [[nodiscard]] std::string fingerprint() const override { return source_->fingerprint(); }
  [[nodiscard]] std::vector<std::filesystem::path> files() const override {
    return source_->files();
  }

 protected:
  void make_ready(int field) const override { source_->prepare(field); }
  View(std::shared_ptr<const Source> source, std::int64_t rows, std::vector<Field> fields)
      : Source(rows, std::move(fields), "a view of data"), source_(std::move(source)) {}

  [[nodiscard]] const Source& source() const { return *source_; }

 private:
  std::shared_ptr<const Source> source_;
};

/// Rows [begin, end) of another source.
class Subset final : public View {
 public:
  /// Throws `Error` unless 0 <= begin <= end <= source->rows().
  Subset(const std::shared_ptr<const Source>& source, std::int64_t begin, std::int64_t end);

  [[nodiscard]] std::string locate(int field, std::int64_t row) const override;
  [[nodiscard]] std::string fingerprint() const override;

 private:
  void read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                 std::byte* destination) const override;

  std::int64_t begin_ = 0;
};

struct ValidationSplit {
  std::shared_ptr<const Source> training;
  std::shared_ptr<const Source> validation;
};

/// Keeps the last part of `source` for validation, before any shuffling: the cut is at
/// floor(rows * (1 - split)), in double, as in Keras
/// (keras/src/trainers/data_adapters/array_slicing.py). Throws `Error` for a split outside (0, 1)
/// and for one that leaves a side empty.
[[nodiscard]] ValidationSplit split_for_validation(std::shared_ptr<const Source> source,
                                                   double split);

}  // namespace meshwork

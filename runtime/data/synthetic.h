// SyntheticSource: samples made up by Philox, for examples, tests and benchmarks.
//
// Every element is a function of the seed, the field's name and the element's index in the whole
// field (row, then position in the sample), so any rank makes just what it needs and all agree.
// Kinds:
//
//   uniform         from `low` to `high`, without `high`; whole numbers for integer types
//   normal          with mean `mean` and standard deviation `stddev` (Box and Muller's method)
//   classes         whole numbers from 0 to `classes` - 1, equally likely
//   linear          each element is w . x / sqrt(|x|) with x the first feature, flattened,
//                   and w fixed standard normal weights: something that a network can learn
//   linear_classes  the index of the largest of `classes` such products: labels that can be learned
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collectives/with_type.h"
#include "runtime/config/options.h"
#include "runtime/data/source.h"

namespace meshwork {

enum class SyntheticKind : std::uint8_t { uniform, normal, classes, linear, linear_classes };

inline const ChoiceTable<SyntheticKind> synthetic_kinds{
    {"uniform", SyntheticKind::uniform},
    {"normal", SyntheticKind::normal},
    {"classes", SyntheticKind::classes},
    {"linear", SyntheticKind::linear},
    {"linear_classes", SyntheticKind::linear_classes}};

/// Whether it makes numbers of classes.
[[nodiscard]] inline bool makes_classes(SyntheticKind kind) {
  return kind == SyntheticKind::classes || kind == SyntheticKind::linear_classes;
}

struct SyntheticField {
  std::string name;
  Shape shape;  // of one sample
  ElementType type = ElementType::float32;
  FieldRole role = FieldRole::feature;
  SyntheticKind kind = SyntheticKind::normal;
  double low = 0, high = 1;     // uniform
  double mean = 0, stddev = 1;  // normal
  std::int64_t classes = 10;    // classes, linear_classes
};

/// Only the options of its kind: one that does nothing is a mistake.
template <class Visitor>
void describe(SyntheticField& field, Visitor& option) {
  option.choice("kind", field.kind, synthetic_kinds, "kind of values");
  option.choice("type", field.type, by_name(element_types), "element type");
  if (field.role == FieldRole::feature) {
    option.required("shape", field.shape, positive, "shape of a sample");
  } else {
    option("shape", field.shape, positive, "shape of a sample");
  }
  if (field.kind == SyntheticKind::uniform) {
    option.about("a uniform distribution");
    option("low", field.low, any_finite, "lower end");
    option("high", field.high, any_finite, "upper end, excluded");
  } else if (field.kind == SyntheticKind::normal) {
    option.about("a normal distribution");
    option("mean", field.mean, any_finite, "mean");
    option("stddev", field.stddev, at_least(0), "standard deviation");
  } else if (makes_classes(field.kind)) {
    option.about(field.kind == SyntheticKind::classes
                     ? "random class numbers"
                     : "class numbers that are a function of the first feature: learnable");
    option("classes", field.classes, positive, "number of classes");
  } else {
    option.about("numbers that are a linear function of the first feature: learnable");
  }
}

class SyntheticSource final : public Source {
 public:
  /// Throws `Error`: no fields, high <= low, negative stddev, classes < 1, linear kinds on the
  /// first feature itself, and a range or kind that the type cannot hold.
  SyntheticSource(std::int64_t rows, std::vector<SyntheticField> fields, std::uint64_t seed);

  [[nodiscard]] std::string locate(int field, std::int64_t row) const override;
  [[nodiscard]] std::int64_t classes_by_construction(int field) const override;
  [[nodiscard]] std::string fingerprint() const override;

 private:
  void read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                 std::byte* destination) const override;
  template <class T>
  void make_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                 T* destination) const;
  [[nodiscard]] double value(int field, std::int64_t row, std::int64_t element) const;
  /// sums[k] = output `first + k` of a linear field's product with the first feature of `row`, for
  /// as many as there are sums, `most_at_once` at most: each input is made once for all of them.
  void products(int field, std::int64_t row, std::int64_t first, std::span<double> sums) const;
  static constexpr std::int64_t most_at_once = 16;

  std::vector<SyntheticField> options_;
  std::uint64_t seed_ = 0;
  std::vector<std::uint64_t> keys_;            // by field
  std::vector<std::int64_t> sample_elements_;  // by field
  std::vector<std::vector<float>> weights_;    // by field, for the linear kinds: (outputs, inputs)
};

}  // namespace meshwork

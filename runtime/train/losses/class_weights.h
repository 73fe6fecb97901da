// Weights of classes: in training a row counts for the loss as much as the class of its target
// weighs.
//
// A class is named by its number or, where targets are categories (data/categories.h), by its text.
//
// They become weights of rows by an operation of the graph, which looks the class of each target up,
// and multiplies with the samples' own weights if they have any. Outside training every class
// weighs 1, as in Keras. RowClass (kernels/classes.h) says how a row's class is read.
//
// Where a mask says which rows count (metric.h), the others weigh 0. How many count in a batch is a
// sum of the graph, and the weights of rows make the mean one over those.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/config/node.h"
#include "runtime/device/kernels/classes.h"
#include "runtime/graph/operation.h"

namespace meshwork {

/// How a class is called: by a number, from 0, or by any text.
class ClassName {
 public:
  template <std::integral Number>
  ClassName(Number number) : number_(number), text_(std::to_string(number)) {}
  ClassName(std::string text);
  ClassName(const char* text) : ClassName(std::string(text)) {}

  /// If it is one.
  [[nodiscard]] const std::optional<std::int64_t>& number() const { return number_; }
  [[nodiscard]] const std::string& text() const { return text_; }
  /// Texts, then numbers, in their order.
  auto operator<=>(const ClassName&) const = default;

 private:
  std::optional<std::int64_t> number_;
  std::string text_;
};

/// Weights by class; a class that is not in it weighs 1.
struct ClassWeights : std::map<ClassName, double> {
  using std::map<ClassName, double>::map;
  static constexpr const char* expected = "a map of classes to weights, such as {0: 1, 1: 5}";
};
void from_config(const ConfigNode& node, ClassWeights& weights);
/// "{0: 1, 1: 5}", "none".
[[nodiscard]] std::string to_text(const ClassWeights& weights);
/// The weights, for their range.
[[nodiscard]] std::vector<double> numbers_of(const ClassWeights& weights);

/// The number of the class that is called `name`, where the classes have `texts`, if any. A text
/// comes first; no number is a class by itself where texts are numbers. Throws `Error`, with the
/// nearest text.
[[nodiscard]] std::int64_t class_number(const ClassName& name, std::span<const std::string> texts);

using WeightsByNumber = std::map<std::int64_t, double>;

/// By class number. Throws `Error` as class_number does, and for a class that has two weights.
[[nodiscard]] WeightsByNumber numbered(const ClassWeights& weights,
                                       std::span<const std::string> texts);

/// What the weight of a row follows from beside its class.
struct RowWeightInputs {
  bool weighted = false;             // weights of samples or rows
  bool masked = false;               // which rows count, and how many those are
  std::int64_t rows_an_element = 1;  // of the mask
};

/// The operation that gives a weight to each row: to tensors of `dimensions` dimensions, which are
/// all of the rows' or the first of them. Classes are read by `of_row` and are `classes` many. Its
/// inputs are the target, unless rows have no class, the weights, the mask and the count, as
/// `inputs` says. Throws `Error` for a class that there is not.
[[nodiscard]] std::unique_ptr<Operation> make_row_weights(const WeightsByNumber& weights,
                                                          RowClass of_row, std::int64_t classes,
                                                          std::size_t dimensions,
                                                          RowWeightInputs inputs);

/// How many rows a mask counts, each of whose elements stands for so many: a sum over the batch.
[[nodiscard]] std::unique_ptr<Operation> make_mask_count(std::int64_t rows_an_element);
/// Of class numbers and a mask: the numbers, but -1, which is no class, for rows that do not count.
[[nodiscard]] std::unique_ptr<Operation> make_masked_class();

}  // namespace meshwork

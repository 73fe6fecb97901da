// Weights of classes: in training a row counts for the loss as much as the class of its target weighs.
//
// They become weights of rows by an operation of the graph, which looks the class of each target up,
// and multiplies with the samples' own weights if they have any. Outside training every class
// weighs 1, as in Keras. RowClass (kernels/classes.h) says how a row's class is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/config/node.h"
#include "runtime/device/kernels/classes.h"
#include "runtime/graph/operation.h"

namespace meshwork {

/// Weights by class; a class that is not in it weighs 1.
struct ClassWeights : std::map<std::int64_t, double> {
  using std::map<std::int64_t, double>::map;
  static constexpr const char* expected = "a map of class numbers to weights, such as {0: 1, 1: 5}";
};
void from_config(const ConfigNode& node, ClassWeights& weights);
/// "{0: 1, 1: 5}", "none".
[[nodiscard]] std::string to_text(const ClassWeights& weights);
/// The weights, for their range.
[[nodiscard]] std::vector<double> numbers_of(const ClassWeights& weights);

/// The operation that gives a weight to each row of predictions that have `row_dimensions`
/// dimensions of rows. Classes are read by `of_row` and are `classes` many. Its inputs are the
/// target and, if it is `weighted`, weights of samples or rows. Throws `Error` for a class that
/// there is not.
[[nodiscard]] std::unique_ptr<Operation> make_class_weights(const ClassWeights& weights,
                                                            RowClass of_row, std::int64_t classes,
                                                            std::size_t row_dimensions,
                                                            bool weighted);

}  // namespace meshwork

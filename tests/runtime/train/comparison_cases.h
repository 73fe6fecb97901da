// What the tests of losses and metrics share: predictions and targets, and references for their
// values in double precision, in the plainest way.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/train/metrics/metric.h"
#include "tests/support/strategy_validator.h"

namespace meshwork::test {

/// Class numbers below `classes`, all of them if there is room.
inline Tensor random_classes(const Shape& shape, std::int64_t classes, unsigned seed) {
  Tensor tensor = random_tensor(shape, seed, 0, static_cast<double>(classes));
  for (double& value : tensor.values) {
    value = std::min(std::floor(value), static_cast<double>(classes - 1));
  }
  return tensor;
}

/// One 1 in each row of `classes`.
inline Tensor one_hot(const Tensor& numbers, std::int64_t classes) {
  Shape shape = numbers.shape;
  shape.push_back(classes);
  Tensor tensor(shape);
  for (std::size_t row = 0; row < numbers.values.size(); ++row) {
    tensor.values[row * classes + static_cast<std::size_t>(numbers.values[row])] = 1;
  }
  return tensor;
}

/// Positive numbers in rows that add up to 1.
inline Tensor random_distributions(const Shape& shape, unsigned seed) {
  Tensor tensor = random_tensor(shape, seed, 0.05, 1);
  const auto columns = static_cast<std::size_t>(shape.back());
  for (std::size_t first = 0; first < tensor.values.size(); first += columns) {
    double sum = 0;
    for (std::size_t c = 0; c < columns; ++c) sum += tensor.values[first + c];
    for (std::size_t c = 0; c < columns; ++c) {
      tensor.values[first + c] = static_cast<float>(tensor.values[first + c] / sum);
    }
  }
  return tensor;
}

inline OperationCase forward_case(const Tensor& prediction, const Tensor& target) {
  return {.inputs = {prediction, target}};
}

/// Backward too, for the prediction alone.
inline OperationCase training_case(const Tensor& prediction, const Tensor& target) {
  return {
      .inputs = {prediction, target}, .output_gradient = Tensor(Shape{}), .wanted = {true, false}};
}

inline std::unique_ptr<Operation> operation_of(const Metric& metric, const Tensor& prediction,
                                               const Tensor& target) {
  return metric.operation(prediction.shape, target.shape);
}

/// The sum that the metric's operation gives.
inline double sum_of(const Metric& metric, const Tensor& prediction, const Tensor& target) {
  return run_whole(*operation_of(metric, prediction, target), forward_case(prediction, target))
      .output.values[0];
}

inline double mean_of(const Metric& metric, const Tensor& prediction, const Tensor& target) {
  return sum_of(metric, prediction, target) / metric.value_count(prediction.shape);
}

/// The gradient of the mean with respect to the prediction.
inline Tensor gradient_of(const Metric& loss, const Tensor& prediction, const Tensor& target) {
  return *run_whole(*operation_of(loss, prediction, target), training_case(prediction, target))
              .gradients[0];
}

using Values = std::vector<double>;

/// The sum over rows of `value(prediction row, target row)`; a row of targets may be one number.
inline double reference_sum(const Tensor& prediction, const Tensor& target,
                            const std::function<double(const Values&, const Values&)>& value) {
  const auto columns = static_cast<std::size_t>(prediction.shape.back());
  const std::size_t rows = prediction.values.size() / columns;
  const std::size_t target_columns = target.values.size() / rows;
  double sum = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    const auto p = prediction.values.begin() + static_cast<std::ptrdiff_t>(row * columns);
    const auto t = target.values.begin() + static_cast<std::ptrdiff_t>(row * target_columns);
    sum += value(Values(p, p + static_cast<std::ptrdiff_t>(columns)),
                 Values(t, t + static_cast<std::ptrdiff_t>(target_columns)));
  }
  return sum;
}

}  // namespace meshwork::test

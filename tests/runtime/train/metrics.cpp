// Metrics: hand-worked numbers, references in double precision, and every split of every dimension
// against the whole.
#include "runtime/train/metrics/metric.h"

#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/metrics/accuracy.h"
#include "runtime/train/metrics/binary_accuracy.h"
#include "runtime/train/metrics/categorical_accuracy.h"
#include "runtime/train/metrics/perplexity.h"
#include "tests/runtime/train/comparison_cases.h"

namespace meshwork::metrics_test {

using namespace meshwork::test;

namespace {

// The place of `right` in descending order, a tie going to the lower class, by sorting.
std::size_t place_of(const Values& p, std::size_t right) {
  std::vector<std::size_t> order(p.size());
  for (std::size_t i = 0; i < p.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return p[a] > p[b]; });
  return static_cast<std::size_t>(std::find(order.begin(), order.end(), right) - order.begin());
}

double hit(const Values& p, double right, std::size_t k) {
  return place_of(p, static_cast<std::size_t>(right)) < k ? 1 : 0;
}

double argmax(const Values& values) {
  return static_cast<double>(std::max_element(values.begin(), values.end()) - values.begin());
}

void check_splits(const Metric& metric, const Tensor& prediction, const Tensor& target) {
  // Counts are whole numbers, and 1 / columns in between: the same bits but for these.
  check_strategies(*operation_of(metric, prediction, target), forward_case(prediction, target),
                   1e-12);
}

// Values from a few levels only, so that there are many ties.
Tensor with_ties(const Shape& shape, unsigned seed) {
  Tensor tensor = random_tensor(shape, seed, 0, 4);
  for (double& value : tensor.values) value = std::floor(value);
  return tensor;
}

}  // namespace

TEST_CASE("accuracies are those worked out by hand") {
  // The largest of each row: 2, then 0 by the tie, then 1.
  const Tensor p({3, 3}, {0.1, 0.2, 0.7, 0.4, 0.4, 0.2, 0.3, 0.6, 0.1});
  CHECK(sum_of(*SparseCategoricalAccuracy(), p, Tensor({3}, {2, 1, 1})) == 2);
  CHECK(sum_of(*SparseCategoricalAccuracy(), p, Tensor({3, 1}, {2, 0, 1})) == 3);
  CHECK(mean_of(*SparseCategoricalAccuracy(), p, Tensor({3}, {0, 1, 2})) == 0);
  // Of a target's equal weights the lowest is right: 2, 0, 0.
  CHECK(sum_of(*CategoricalAccuracy(), p, Tensor({3, 3}, {0, 0, 1, 0.5, 0.5, 0, 1, 1, 1})) == 2);
  // Second places: 1, 1, 0.
  CHECK(sum_of(*SparseTopKCategoricalAccuracy({.k = 2}), p, Tensor({3}, {1, 1, 2})) == 2);
  CHECK(sum_of(*SparseTopKCategoricalAccuracy({.k = 3}), p, Tensor({3}, {0, 2, 2})) == 3);
  CHECK(sum_of(*SparseTopKCategoricalAccuracy(), p, Tensor({3}, {0, 2, 2})) == 3);
  CHECK(sum_of(*TopKCategoricalAccuracy({.k = 2}), p,
               Tensor({3, 3}, {0, 1, 0, 0, 1, 0, 0, 0, 1})) == 2);
}

TEST_CASE("binary accuracy is strictly above the threshold, and a mean over each row") {
  // Keras's documented example: 3 of 4 right, twice; 0.5 itself is not above.
  const Tensor p({4, 1}, {0.98, 1, 0, 0.6});
  CHECK(mean_of(*BinaryAccuracy(), p, Tensor({4, 1}, {1, 1, 0, 0})) == 0.75);
  CHECK(mean_of(*BinaryAccuracy(), p, Tensor({4}, {1, 1, 0, 0})) == 0.75);
  CHECK(mean_of(*BinaryAccuracy(), Tensor({2, 1}, {0.5, 0.5}), Tensor({2, 1}, {0, 1})) == 0.5);
  CHECK(mean_of(*BinaryAccuracy({.threshold = 0.4}), Tensor({1, 1}, {0.5}), Tensor({1, 1}, {1})) ==
        1);
  // Rows 2/4 and 4/4: the sum is 1.5 of 2 rows.
  const Tensor wide({2, 4}, {1, 0, 1, 0, 1, 1, 0, 0});
  CHECK(sum_of(*BinaryAccuracy(), wide, Tensor({2, 4}, {1, 1, 0, 0, 1, 1, 0, 0})) == 1.5);
  CHECK(BinaryAccuracy()->value_count({2, 4}) == 2);
}

TEST_CASE("ranking metrics equal a sort, with many ties, and split over classes") {
  const Shape shape = GENERATE(Shape{7, 5}, Shape{3, 2, 7});
  const std::int64_t k = GENERATE(1, 2, 3);
  INFO("shape " << to_string(shape) << ", k " << k);
  const Tensor p = with_ties(shape, 1);
  const Tensor classes = random_classes(Shape(shape.begin(), shape.end() - 1), shape.back(), 2);
  const Tensor weights = with_ties(shape, 3);
  const auto places = static_cast<std::size_t>(k);
  const SharedMetric sparse =
      k == 1 ? SparseCategoricalAccuracy() : SparseTopKCategoricalAccuracy({.k = k});
  const SharedMetric dense = k == 1 ? CategoricalAccuracy() : TopKCategoricalAccuracy({.k = k});
  CHECK(sum_of(*sparse, p, classes) ==
        reference_sum(p, classes,
                      [&](const Values& a, const Values& b) { return hit(a, b[0], places); }));
  CHECK(sum_of(*dense, p, weights) ==
        reference_sum(p, weights,
                      [&](const Values& a, const Values& b) { return hit(a, argmax(b), places); }));
  check_splits(*sparse, p, classes);
  check_splits(*dense, p, weights);
}

TEST_CASE("binary accuracy splits freely") {
  const Tensor p = random_tensor({5, 7}, 1, 0, 1);
  check_splits(*BinaryAccuracy(), p, random_classes({5, 7}, 2, 2));
}

TEST_CASE("a prediction that is no number is never right") {
  const double nan = std::nan("");
  const Tensor p({2, 3}, {nan, nan, nan, 0, nan, 1});
  CHECK(sum_of(*SparseCategoricalAccuracy(), p, Tensor({2}, {0, 2})) == 0);
}

TEST_CASE("accuracy is the one that fits the shapes") {
  const auto kind = [](const Shape& prediction, const Shape& target) {
    return Accuracy()->operation(prediction, target)->kind();
  };
  CHECK(kind({-1, 1}, {-1, 1}) == "binary_accuracy");
  CHECK(kind({-1, 1}, {-1}) == "binary_accuracy");
  CHECK(kind({-1}, {-1}) == "binary_accuracy");
  CHECK(kind({-1, 10}, {-1}) == "sparse_categorical_accuracy");
  CHECK(kind({-1, 10}, {-1, 1}) == "sparse_categorical_accuracy");
  CHECK(kind({-1, 4, 10}, {-1, 4}) == "sparse_categorical_accuracy");
  CHECK(kind({-1, 10}, {-1, 10}) == "categorical_accuracy");
  CHECK_THROWS_WITH(kind({-1, 10}, {-1, 7}), Catch::Contains("found (batch, 7)"));
  CHECK(Accuracy()->target_classes({-1, 10}, {-1}) == 10);
  CHECK(Accuracy()->target_classes({-1, 10}, {-1, 10}) == 0);
  CHECK(Accuracy()->value_count({6, 4, 10}) == 24);
  CHECK(Accuracy()->name() == "accuracy");
}

TEST_CASE("every loss is a metric that falls, and accuracies rise") {
  const std::vector<SharedMetric> metrics{MeanSquaredError(), SparseCategoricalAccuracy()};
  CHECK(metrics[0]->better() == Better::lower);
  CHECK(metrics[1]->better() == Better::higher);
  CHECK(metrics[0]->name() == "mean_squared_error");
  CHECK(metrics[1]->name() == "sparse_categorical_accuracy");
  CHECK(TopKCategoricalAccuracy({.k = 3, .name = "top_3"})->name() == "top_3");
}

TEST_CASE("a metric made of a loss takes predictions for what the loss does") {
  CHECK(Perplexity()->predictions({-1, 1}) == Predictions::probabilities);
  CHECK(Perplexity({.from_logits = true})->predictions({-1, 1}) == Predictions::logits);
  CHECK(BitsPerByte({.from_logits = true})->predictions({-1, 1}) == Predictions::logits);
  CHECK(Perplexity()->better() == Better::lower);
  CHECK(Perplexity()->target_classes({-1, 5, 9}, {-1, 5}) == 9);
}

TEST_CASE("names in the logs are told apart") {
  const std::vector<SharedMetric> twice{Accuracy(), Accuracy()};
  CHECK_THROWS_WITH(
      check_metric_names(twice),
      "two values in the logs have the name \"accuracy\"; give the metric another name");
  const std::vector<SharedMetric> loss{Accuracy({.name = "loss"})};
  CHECK_THROWS_WITH(check_metric_names(loss),
                    Catch::Contains("two values in the logs have the name \"loss\""));
  const std::vector<SharedMetric> validation{Accuracy({.name = "val_accuracy"})};
  CHECK_THROWS_WITH(check_metric_names(validation), Catch::Contains("val_accuracy"));
  for (const char* name : {"", "epoch", "learning_rate", "samples_per_second", "x\ny"}) {
    CHECK_THROWS_WITH(check_log_name(name), Catch::Contains("cannot be the name of a value"));
  }
  const std::vector<SharedMetric> good{Accuracy(), MeanSquaredError()};
  CHECK_NOTHROW(check_metric_names(good));
}

TEST_CASE("options out of range are errors") {
  CHECK_THROWS_WITH(TopKCategoricalAccuracy({.k = 0}),
                    "TopKCategoricalAccuracy: k: expected an integer of at least 1, found 0");
  CHECK_THROWS_WITH(SparseTopKCategoricalAccuracy({.k = -1}), Catch::Contains("found -1"));
  CHECK_THROWS_WITH(BinaryAccuracy({.threshold = std::nan("")}), Catch::Contains("threshold"));
}

}  // namespace meshwork::metrics_test

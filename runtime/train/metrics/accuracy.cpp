#include "runtime/train/metrics/accuracy.h"

#include <utility>

#include "runtime/train/from_config.h"
#include "runtime/train/metrics/binary_accuracy.h"
#include "runtime/train/metrics/categorical_accuracy.h"

namespace meshwork {
namespace {

class AccuracyMetric final : public Metric {
 public:
  explicit AccuracyMetric(AccuracyOptions options) : options_(std::move(options)) {}

  std::string name() const override { return options_.name; }
  Better better() const override { return Better::higher; }
  std::unique_ptr<Operation> operation(const Shape& prediction,
                                       const Shape& target) const override {
    return chosen(prediction, target)->operation(prediction, target);
  }
  double value_count(const Shape& prediction, const Shape& target) const override {
    return chosen(prediction, target)->value_count(prediction, target);
  }
  std::int64_t target_classes(const Shape& prediction, const Shape& target) const override {
    return chosen(prediction, target)->target_classes(prediction, target);
  }

 private:
  static SharedMetric chosen(const Shape& prediction, const Shape& target) {
    if (prediction.size() < 2 || prediction.back() == 1) {
      return BinaryAccuracy();
    }
    if (target.size() < prediction.size() || target.back() == 1) {
      return SparseCategoricalAccuracy();
    }
    return CategoricalAccuracy();
  }

  AccuracyOptions options_;
};

}  // namespace

template <class Visitor>
void describe(AccuracyOptions& options, Visitor& option) {
  option("name", options.name, "what logs call it");
}

SharedMetric Accuracy(const AccuracyOptions& options) {
  return std::make_shared<AccuracyMetric>(options);
}

void add_accuracy(Catalog& catalog) {
  catalog.add<SharedMetric, AccuracyOptions>("Accuracy", {"accuracy", "acc"}, Accuracy);
}

}  // namespace meshwork

// Batch normalization: the statistics of the whole batch, however it is split.
#include "runtime/graph/operations/batch_normalization.h"
#include "runtime/device/kernels/activation.h"

#include <cmath>

#include "collectives/error.h"
#include "runtime/graph/operations/activation.h"
#include "runtime/graph/operations/identity.h"
#include "runtime/graph/rewrites/rewrites.h"
#include "tests/support/strategy_validator.h"

namespace meshwork::batch_normalization_test {

using namespace meshwork::test;

namespace {

struct Statistics {
  std::vector<double> mean, variance;
};

// Mean and population variance of every channel, in two passes.
Statistics statistics_of(const Tensor& x) {
  const std::size_t channels = static_cast<std::size_t>(x.shape.back());
  const double rows = static_cast<double>(x.values.size() / channels);
  Statistics found{std::vector<double>(channels), std::vector<double>(channels)};
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    found.mean[i % channels] += x.values[i] / rows;
  }
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    found.variance[i % channels] += std::pow(x.values[i] - found.mean[i % channels], 2) / rows;
  }
  return found;
}

// (x - mean) * gamma / sqrt(variance + epsilon) + beta
Tensor normalized(const Tensor& x, const Statistics& at, double epsilon, const Tensor* gamma,
                  const Tensor* beta) {
  Tensor y = x;
  const std::size_t channels = static_cast<std::size_t>(x.shape.back());
  for (std::size_t i = 0; i < y.values.size(); ++i) {
    const std::size_t c = i % channels;
    y.values[i] = (x.values[i] - at.mean[c]) / std::sqrt(at.variance[c] + epsilon);
    y.values[i] = y.values[i] * (gamma ? gamma->values[c] : 1) + (beta ? beta->values[c] : 0);
  }
  return y;
}

struct Subject {
  BatchNormalizationOptions options;
  OperationCase what;
  Tensor gamma, beta, mean, variance;
};

Subject subject_of(const Shape& shape, const BatchNormalizationOptions& options) {
  const Shape channels{shape.back()};
  Subject subject{
      options,
      {.inputs = {random_tensor(shape, 1, -1, 3)}, .output_gradient = random_tensor(shape, 2)},
      random_tensor(channels, 3, 0.5, 1.5),
      random_tensor(channels, 4),
      random_tensor(channels, 5),
      random_tensor(channels, 6, 0.5, 2)};
  OperationCase& what = subject.what;
  what.wanted = {true};
  const auto add = [&](const Tensor& tensor, bool wanted) {
    what.inputs.push_back(tensor);
    what.wanted.push_back(wanted);
  };
  if (options.scale) {
    add(subject.gamma, !options.frozen);
  }
  if (options.center) {
    add(subject.beta, !options.frozen);
  }
  add(subject.mean, false);
  add(subject.variance, false);
  return subject;
}

const std::vector<BatchNormalizationOptions> forms{
    {}, {.scale = false}, {.center = false}, {.scale = false, .center = false, .epsilon = 1e-2}};

}  // namespace

TEST_CASE("in training a batch is normalized by its own mean and population variance") {
  for (const Shape& shape : {Shape{2, 7, 5, 3}, Shape{11, 4}, Shape{3, 4, 2}}) {
    for (const BatchNormalizationOptions& options : forms) {
      const Subject subject = subject_of(shape, options);
      const OperationResult found = run_whole(BatchNormalizationOperation(options), subject.what);
      CHECK(difference(found.output,
                       normalized(subject.what.inputs[0], statistics_of(subject.what.inputs[0]),
                                  options.epsilon, options.scale ? &subject.gamma : nullptr,
                                  options.center ? &subject.beta : nullptr),
                       2e-6) == "");
    }
  }
}

TEST_CASE("the moving values move by one minus momentum towards those of the batch") {
  const Subject subject = subject_of({2, 7, 5, 3}, {.momentum = 0.75});
  const Statistics batch = statistics_of(subject.what.inputs[0]);
  const OperationResult found =
      run_whole(BatchNormalizationOperation(subject.options), subject.what);
  REQUIRE(found.updates.size() == 5);
  CHECK_FALSE(found.updates[1]);
  REQUIRE(found.updates[3]);
  REQUIRE(found.updates[4]);
  for (std::size_t c = 0; c < 3; ++c) {
    CHECK(found.updates[3]->values[c] ==
          Approx(0.75 * subject.mean.values[c] + 0.25 * batch.mean[c]).epsilon(1e-6));
    CHECK(found.updates[4]->values[c] ==
          Approx(0.75 * subject.variance.values[c] + 0.25 * batch.variance[c]).epsilon(1e-6));
  }
}

TEST_CASE("outside training, and frozen, the moving values are used and left alone") {
  for (const bool frozen : {false, true}) {
    Subject subject = subject_of({2, 7, 5, 3}, {.frozen = frozen});
    subject.what.training = frozen;
    if (!frozen) {
      subject.what.output_gradient.reset();
    }
    const BatchNormalizationOperation operation(subject.options);
    const OperationResult found = run_whole(operation, subject.what);
    CHECK(difference(
              found.output,
              normalized(subject.what.inputs[0], {subject.mean.values, subject.variance.values},
                         subject.options.epsilon, &subject.gamma, &subject.beta),
              2e-6) == "");
    CHECK(std::none_of(found.updates.begin(), found.updates.end(),
                       [](const auto& update) { return update.has_value(); }));
    check_strategies(operation, subject.what);
    if (frozen) {
      check_gradients(operation, subject.what);
    }
  }
}

TEST_CASE("batch normalization's gradients agree with differences") {
  for (const BatchNormalizationOptions& options : forms) {
    check_gradients(BatchNormalizationOperation(options), subject_of({3, 3, 2, 2}, options).what);
  }
  check_gradients(BatchNormalizationOperation({}), subject_of({7, 3}, {}).what);
}

TEST_CASE("batch normalization agrees with the truth however the batch is split") {
  for (const BatchNormalizationOptions& options : forms) {
    check_strategies(BatchNormalizationOperation(options), subject_of({3, 7, 5, 3}, options).what);
  }
  check_strategies(BatchNormalizationOperation({}), subject_of({7, 5}, {}).what);
  check_strategies(BatchNormalizationOperation({}), subject_of({2, 5, 3}, {}).what);
}

TEST_CASE("a mean far from zero does not eat the variance") {
  // Deviations of 1 around 4096: float32 has them to 2^-11, so the variance is right to about 1e-3.
  Subject subject = subject_of({4, 5, 3}, {});
  for (double& value : subject.what.inputs[0].values) {
    value = static_cast<float>(4096 + value);
  }
  const BatchNormalizationOperation operation({});
  CHECK(difference(run_whole(operation, subject.what).output,
                   normalized(subject.what.inputs[0], statistics_of(subject.what.inputs[0]), 1e-3,
                              &subject.gamma, &subject.beta),
                   1e-3) == "");
  check_strategies(operation, subject.what, 1e-3);
}

TEST_CASE("relu is joined to batch normalization, and nothing else") {
  const BatchNormalizationOperation plain({});
  const auto with_relu = joined(plain, ActivationOperation(Activation::relu));
  REQUIRE(with_relu);
  CHECK(with_relu->kind() == "batch normalization+relu");
  CHECK(joined(*with_relu, IdentityOperation())->kind() == "batch normalization+relu");
  CHECK_FALSE(joined(*with_relu, ActivationOperation(Activation::relu)));
  CHECK_FALSE(joined(plain, ActivationOperation(Activation::tanh)));

  const Subject subject = subject_of({3, 7, 5, 3}, {});
  Tensor expected = normalized(subject.what.inputs[0], statistics_of(subject.what.inputs[0]), 1e-3,
                               &subject.gamma, &subject.beta);
  for (double& value : expected.values) {
    value = std::max(value, 0.0);
  }
  CHECK(difference(run_whole(*with_relu, subject.what).output, expected, 2e-6) == "");
  check_strategies(*with_relu, subject.what);

  // Its gradient is that of the two one after the other.
  const OperationResult both = run_whole(*with_relu, subject.what);
  OperationCase first = subject.what;
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    first.output_gradient->values[i] *= expected.values[i] > 0 ? 1 : 0;
  }
  const OperationResult one = run_whole(plain, first);
  for (const std::size_t input : {0, 1, 2}) {
    CHECK(difference(*both.gradients[input], *one.gradients[input], 1e-6) == "");
  }
}

TEST_CASE("channels are split with everything that belongs to them, and reduce nothing") {
  const std::vector<Shape> shapes{{2, 7, 5, 3}, {3}, {3}, {3}, {3}};
  const Rule rule = BatchNormalizationOperation({}).rule(shapes);
  CHECK(rule.inputs == std::vector<std::string>{rule.output, "o", "o", "o", "o"});
  CHECK(rule.own == rule.output.substr(0, 3));
  CHECK(rule.whole.empty());
  const std::vector<OwnReduction> reductions = BatchNormalizationOperation({}).own_reductions(rule);
  REQUIRE(reductions.size() == 2);
  CHECK(reductions[0].over == rule.own);
  CHECK(reductions[0].of == "o");
  CHECK(reductions[0].bytes_per_element == 16);
  CHECK_FALSE(reductions[0].backward);
  CHECK(reductions[1].backward);
  CHECK(BatchNormalizationOperation({.frozen = true}).own_reductions(rule).empty());
  CHECK_THROWS_WITH(BatchNormalizationOperation({}).output_shape(
                        std::vector<Shape>{{-1, 7, 5, 3}, {3}, {4}, {3}, {3}}),
                    Catch::Contains("needs statistics of shape (3), found (4)"));
}

}  // namespace meshwork::batch_normalization_test

// Convolutions and transposed convolutions, over every split that their rules allow.
#include "runtime/graph/operations/convolution.h"
#include "runtime/device/kernels/activation.h"

#include "collectives/error.h"
#include "runtime/graph/operations/activation.h"
#include "runtime/graph/operations/bias.h"
#include "runtime/graph/operations/identity.h"
#include "runtime/graph/operations/softmax.h"
#include "runtime/graph/operations/transposed_convolution.h"
#include "runtime/graph/rewrites/rewrites.h"
#include "tests/support/image_reference.h"
#include "tests/support/strategy_validator.h"

namespace meshwork::convolution_test {

using namespace meshwork::test;

namespace {

SlidingWindow sliding(const Along& along) {
  return {along.window, along.stride, along.dilation, along.same ? Padding::same : Padding::valid};
}

struct Convolved {
  std::string name;
  Shape x;
  std::int64_t filters;
  Along down, across;
  std::int64_t groups = 1;

  [[nodiscard]] ConvolutionOperation operation(bool bias = false,
                                               Activation activation = Activation::linear) const {
    return ConvolutionOperation({sliding(down), sliding(across)}, groups, {bias, activation});
  }
  [[nodiscard]] OperationCase what(bool bias = false) const {
    OperationCase what;
    what.inputs = {random_tensor(x, 1),
                   random_tensor({down.window, across.window, x[3] / groups, filters}, 2)};
    if (bias) {
      what.inputs.push_back(random_tensor({filters}, 3));
    }
    what.output_gradient =
        random_tensor({x[0], down.outputs(x[1]), across.outputs(x[2]), filters}, 4);
    return what;
  }
};

// Images of 7 x 5: on 2 and 3 ranks blocks differ, on 2 x 3 some windows are wider than a block.
std::vector<Convolved> cases() {
  const Along three{.window = 3, .same = true};
  return {
      {"same", {2, 7, 5, 3}, 2, three, three},
      {"valid", {2, 7, 5, 2}, 3, {.window = 3}, {.window = 2}},
      {"a stride that does not divide", {2, 7, 5, 2}, 3, {3, 2, 1, true}, {2, 3, 1, true}},
      {"valid with strides that leave inputs out", {2, 8, 7, 2}, 3, {2, 3}, {1, 4}},
      {"a window wider than a block", {3, 7, 5, 2}, 2, {6, 1, 1, true}, {5, 1, 1, true}},
      {"a window wider than the image", {1, 3, 2, 2}, 3, {7, 1, 1, true}, {6, 1, 1, true}},
      {"dilation", {2, 7, 5, 2}, 3, {3, 1, 2, true}, {2, 1, 3, true}},
      {"dilation and strides", {2, 9, 7, 2}, 2, {3, 2, 2, false}, {3, 2, 2, true}},
      {"one pixel of output", {2, 3, 2, 2}, 2, {3}, {2}},
      {"groups that ranks can share out", {2, 4, 3, 6}, 12, three, {2, 2, 1, true}, 6},
      {"groups that no rank gets whole", {2, 4, 3, 4}, 10, three, {2, 1, 1, true}, 2},
      {"depthwise", {2, 5, 3, 5}, 5, three, three, 5},
      {"depthwise with a multiplier", {1, 5, 3, 3}, 9, three, {1}, 3},
  };
}

}  // namespace

TEST_CASE("a convolution is the sum over windows and channels") {
  for (const Convolved& subject : cases()) {
    INFO(subject.name);
    const OperationCase what = subject.what();
    const Tensor expected =
        convolved(what.inputs[0], what.inputs[1], subject.down, subject.across, subject.groups);
    CHECK(difference(run_whole(subject.operation(), what).output, expected, 1e-6) == "");
  }
}

TEST_CASE("a convolution worked by hand") {
  // 3 x 3 ones under a 2 x 2 kernel of 1, 2, 3, 4: padding is below and to the right.
  const ConvolutionOperation same({{2, 1, 1, Padding::same}, {2, 1, 1, Padding::same}});
  const OperationCase what{.inputs = {Tensor({1, 3, 3, 1}, std::vector<double>(9, 1)),
                                      Tensor({2, 2, 1, 1}, {1, 2, 3, 4})},
                           .output_gradient = Tensor({1, 3, 3, 1}, std::vector<double>(9, 1))};
  const OperationResult found = run_whole(same, what);
  CHECK(found.output.values == std::vector<double>{10, 10, 4, 10, 10, 4, 3, 3, 1});
  CHECK(found.gradients[0]->values == std::vector<double>{1, 3, 3, 4, 10, 10, 4, 10, 10});
  CHECK(found.gradients[1]->values == std::vector<double>{9, 6, 6, 4});
}

TEST_CASE("causal windows look back alone") {
  const ConvolutionOperation operation({{.window = 3, .padding = Padding::causal}});
  const OperationCase what{
      .inputs = {Tensor({1, 4, 1}, {1, 2, 3, 4}), Tensor({3, 1, 1}, {1, 10, 100})},
      .output_gradient = Tensor({1, 4, 1}, {1, 0, 0, 0})};
  const OperationResult found = run_whole(operation, what);
  CHECK(found.output.values == std::vector<double>{100, 210, 321, 432});
  CHECK(found.gradients[0]->values == std::vector<double>{100, 0, 0, 0});
  CHECK(found.gradients[1]->values == std::vector<double>{0, 0, 1});
  const SlidingWindow wide{.window = 3, .stride = 2, .dilation = 2, .padding = Padding::causal};
  CHECK(wide.outputs(7) == 4);
  CHECK(wide.before(7) == 4);
  CHECK(wide.inputs_of({3, 4}, 7) == Range{2, 7});
}

TEST_CASE("a convolution's gradients agree with differences") {
  for (const Convolved& subject : cases()) {
    INFO(subject.name);
    check_gradients(subject.operation(), subject.what());
  }
}

TEST_CASE("a convolution agrees with the truth over every dimension that an axis can split") {
  for (const Convolved& subject : cases()) {
    INFO(subject.name);
    check_strategies(subject.operation(), subject.what());
  }
}

TEST_CASE("a convolution with a bias and an activation in it is their sequence, on any split") {
  for (const std::size_t index : {std::size_t{0}, std::size_t{10}}) {
    const Convolved subject = cases()[index];
    for (const Activation activation : {Activation::linear, Activation::relu, Activation::tanh}) {
      for (const bool bias : {false, true}) {
        INFO(subject.name << ", " << name_of(activation) << (bias ? " with bias" : ""));
        const ConvolutionOperation operation = subject.operation(bias, activation);
        const OperationCase what = subject.what(bias);
        Tensor expected =
            convolved(what.inputs[0], what.inputs[1], subject.down, subject.across, subject.groups);
        for (std::size_t i = 0; i < expected.values.size(); ++i) {
          double& value = expected.values[i];
          value += bias ? what.inputs[2].values[i % what.inputs[2].values.size()] : 0;
          value = activation == Activation::relu   ? std::max(value, 0.0)
                  : activation == Activation::tanh ? std::tanh(value)
                                                   : value;
        }
        CHECK(difference(run_whole(operation, what).output, expected, 1e-6) == "");
        check_strategies(operation, what);
        if (activation == Activation::tanh) {
          check_gradients(operation, what);
        }
      }
    }
  }
}

TEST_CASE("sequences are images of one row") {
  for (const std::int64_t groups : {1, 2}) {
    const Along along{3, 2, 1, true};
    const ConvolutionOperation operation({sliding(along)}, groups);
    const OperationCase what{
        .inputs = {random_tensor({3, 11, 4}, 1), random_tensor({3, 4 / groups, 6}, 2)},
        .output_gradient = random_tensor({3, 6, 6}, 3)};
    Tensor image = what.inputs[0];
    image.shape = {3, 1, 11, 4};
    Tensor kernel = what.inputs[1];
    kernel.shape = {1, 3, 4 / groups, 6};
    Tensor expected = convolved(image, kernel, {}, along, groups);
    expected.shape = {3, 6, 6};
    CHECK(difference(run_whole(operation, what).output, expected, 1e-6) == "");
    check_gradients(operation, what);
    check_strategies(operation, what);
  }
}

TEST_CASE("a convolution takes the bias and the activation that follow it, and no more") {
  const ConvolutionOperation convolution = cases()[0].operation();
  const auto with_bias = joined(convolution, BiasOperation());
  REQUIRE(with_bias);
  CHECK(with_bias->kind() == "convolution+bias");
  CHECK(joined(*with_bias, ActivationOperation(Activation::relu))->kind() ==
        "convolution+bias+relu");
  CHECK(joined(convolution, BiasOperation({.activation = Activation::tanh}))->kind() ==
        "convolution+bias+tanh");
  CHECK(joined(convolution, ActivationOperation(Activation::relu))->kind() == "convolution+relu");
  CHECK(joined(*with_bias, IdentityOperation())->kind() == "convolution+bias");
  CHECK_FALSE(joined(*with_bias, BiasOperation()));
  CHECK_FALSE(joined(convolution, ActivationOperation(Activation::gelu)));
  CHECK_FALSE(joined(convolution, SoftmaxOperation()));
}

TEST_CASE("a convolution's rule says what may be split, and its windows what is needed") {
  const ConvolutionOperation plain = cases()[2].operation();  // rows: 3 wide, stride 2, same
  const std::vector<Shape> shapes{{2, 7, 5, 2}, {3, 2, 2, 3}};
  const Rule rule = plain.rule(shapes);
  CHECK(rule.inputs == std::vector<std::string>{"nhwc", "rscf"});
  CHECK(rule.output == "nhwf");
  CHECK(rule.whole == "rs");
  CHECK(rule.windows == "hw");
  CHECK(rule.own.empty());
  // 4 rows of output over 7, with one row of padding before: output 2 sees rows 3, 4 and 5.
  CHECK(plain.window(0, 1, {0, 1}, shapes) == Range{0, 2});
  CHECK(plain.window(0, 1, {2, 3}, shapes) == Range{3, 6});
  CHECK(plain.window(0, 1, {0, 4}, shapes) == Range{0, 7});
  CHECK(cases()[0].operation(true).rule(shapes).whole == "rsc");

  const ConvolutionOperation grouped = cases()[10].operation();  // 4 channels, 10 filters, 2 groups
  const std::vector<Shape> grouped_shapes{{2, 4, 3, 4}, {3, 2, 2, 10}};
  CHECK(grouped.rule(grouped_shapes).inputs == std::vector<std::string>{"nhwg", "rsig"});
  CHECK(grouped.rule(grouped_shapes).windows == "hwg");
  CHECK(grouped.window(0, 3, {0, 5}, grouped_shapes) == Range{0, 2});
  CHECK(grouped.window(0, 3, {4, 6}, grouped_shapes) == Range{0, 4});
  CHECK(grouped.window(0, 3, {6, 9}, grouped_shapes) == Range{2, 4});
  CHECK(grouped.window(1, 3, {6, 9}, grouped_shapes) == Range{6, 9});
}

TEST_CASE("blocks of whole groups run as they are, others are cut out of whole groups") {
  const MeshShape two({{"two", 2}}, 2);
  const auto booked = [&](const Convolved& subject, const MeshShape& mesh) {
    const OperationCase what = subject.what();
    const std::unique_ptr<Device> device = make_device({.kind = "cpu"});
    Meeting meeting(1);
    const ConvolutionOperation operation = subject.operation();
    OperationCase forward = what;
    forward.output_gradient.reset();
    return ReferenceLowering(operation, forward, mesh, {{'g', {0}}}, 0, *device, meeting).labels();
  };
  CHECK(booked(cases()[9], two).size() == 1);   // 6 groups on 2 ranks
  CHECK(booked(cases()[10], two).size() == 1);  // 2 groups on 2 ranks
  CHECK(booked(cases()[10], MeshShape({{"three", 3}}, 3)).size() == 4);
}

TEST_CASE("operands that do not fit a convolution are errors that say what would") {
  const ConvolutionOperation operation({{3, 1, 1, Padding::valid}, {3, 1, 1, Padding::valid}});
  const auto shape_of_output = [&](std::vector<Shape> inputs) {
    return operation.output_shape(inputs);
  };
  CHECK(shape_of_output({{-1, 7, 5, 2}, {3, 3, 2, 4}}) == Shape{-1, 5, 3, 4});
  CHECK_THROWS_WITH(
      shape_of_output({{-1, 7, 5, 2}, {3, 3, 3, 4}}),
      Catch::Contains("needs a kernel of shape (3, 3, 2, filters), found (3, 3, 3, 4)"));
  CHECK_THROWS_WITH(shape_of_output({{-1, 7, 5}, {3, 3, 2, 4}}),
                    Catch::Contains("expected images of shape (batch, rows, columns, channels), "
                                    "found shape (batch, 7, 5)"));
  CHECK_THROWS_WITH(shape_of_output({{-1, 7, 2, 2}, {3, 3, 2, 4}}),
                    Catch::Contains("no place for a window of 3 elements in dimension 2"));
  const ConvolutionOperation grouped({{1, 1, 1, Padding::valid}, {1, 1, 1, Padding::valid}}, 2);
  CHECK_THROWS_WITH(grouped.output_shape(std::vector<Shape>{{-1, 7, 2, 3}, {1, 1, 1, 2}}),
                    Catch::Contains("3 channels do not divide into 2 groups"));
}

TEST_CASE("a transposed convolution is what a convolution's gradient is") {
  struct Transposed {
    Shape x;
    std::int64_t filters;
    Along down, across;
    std::int64_t rows, columns;  // Keras: length * stride, + max(extent - stride, 0) if valid
  };
  const std::vector<Transposed> all{
      {{2, 4, 3, 3}, 2, {3, 2, 1, true}, {2, 2, 1, true}, 8, 6},
      {{2, 4, 3, 2}, 3, {3, 2, 1, false}, {2, 3, 1, false}, 9, 9},
      {{2, 5, 3, 2}, 2, {5, 1, 1, true}, {3, 1, 1, false}, 5, 5},
      {{1, 4, 3, 2}, 2, {4, 3, 1, true}, {1, 2, 1, true}, 12, 6},
      {{1, 4, 3, 2}, 2, {2, 1, 3, true}, {3, 2, 2, false}, 4, 9},
  };
  for (const Transposed& subject : all) {
    INFO(to_string(subject.x) << " to " << subject.rows << " x " << subject.columns);
    const TransposedConvolutionOperation operation(
        {sliding(subject.down), sliding(subject.across)});
    const Shape y{subject.x[0], subject.rows, subject.columns, subject.filters};
    const OperationCase what{.inputs = {random_tensor(subject.x, 1),
                                        random_tensor({subject.down.window, subject.across.window,
                                                       subject.filters, subject.x[3]},
                                                      2)},
                             .output_gradient = random_tensor(y, 3)};
    CHECK(operation.output_shape(std::vector<Shape>{subject.x, what.inputs[1].shape}) == y);
    CHECK(difference(run_whole(operation, what).output,
                     transposed_convolved(what.inputs[0], what.inputs[1], subject.down,
                                          subject.across, subject.rows, subject.columns),
                     1e-6) == "");
    check_gradients(operation, what);
    check_strategies(operation, what);
  }
}

}  // namespace meshwork::convolution_test

// Convolutions, pooling and upsampling of volumes against plain loops, over every split that their
// rules allow.
#include "runtime/graph/operations/convolution.h"
#include "runtime/graph/operations/pooling.h"
#include "runtime/graph/operations/transposed_convolution.h"
#include "runtime/graph/operations/upsampling.h"
#include "tests/support/image_reference.h"
#include "tests/support/strategy_validator.h"

namespace meshwork::volumes_test {

using namespace meshwork::test;

namespace {

using Windows = std::array<Along, 3>;

std::vector<SlidingWindow> sliding(const Windows& windows) {
  std::vector<SlidingWindow> all;
  for (const Along& along : windows) {
    all.push_back(
        {along.window, along.stride, along.dilation, along.same ? Padding::same : Padding::valid});
  }
  return all;
}

using Index = std::array<std::int64_t, 3>;

/// visit(output, place of its window, input) for every place of every window inside a volume of
/// shape (batch, planes, rows, columns, channels).
void for_each_place(const Windows& windows, const Shape& x,
                    const std::function<void(const Index&, const Index&, const Index&)>& visit) {
  Shape outputs, places;
  for (std::size_t d = 0; d < 3; ++d) {
    outputs.push_back(windows[d].outputs(x[d + 1]));
    places.push_back(windows[d].window);
  }
  const auto index = [](std::int64_t i, const Shape& of) {
    return Index{i / of[2] / of[1], i / of[2] % of[1], i % of[2]};
  };
  for (std::int64_t o = 0; o < element_count(outputs); ++o) {
    for (std::int64_t p = 0; p < element_count(places); ++p) {
      const Index output = index(o, outputs), place = index(p, places);
      Index input{};
      bool inside = true;
      for (std::size_t d = 0; d < 3; ++d) {
        const Along& along = windows[d];
        input[d] = output[d] * along.stride - along.before(x[d + 1]) + place[d] * along.dilation;
        inside = inside && input[d] >= 0 && input[d] < x[d + 1];
      }
      if (inside) visit(output, place, input);
    }
  }
}

/// The place of channel 0 of sample n at `at`.
std::size_t offset(const Shape& shape, std::int64_t n, const Index& at) {
  return static_cast<std::size_t>((((n * shape[1] + at[0]) * shape[2] + at[1]) * shape[3] + at[2]) *
                                  shape[4]);
}

Shape output_shape(const Windows& windows, const Shape& x, std::int64_t channels) {
  return {x[0], windows[0].outputs(x[1]), windows[1].outputs(x[2]), windows[2].outputs(x[3]),
          channels};
}

/// The part of the kernel for `place`, (channels of a group, filters).
std::size_t kernel_offset(const Shape& kernel, const Index& place) {
  return static_cast<std::size_t>(((place[0] * kernel[1] + place[1]) * kernel[2] + place[2]) *
                                  kernel[3] * kernel[4]);
}

struct Subject {
  std::string name;
  Shape x;
  std::int64_t filters;
  Windows windows;
  std::int64_t groups = 1;
};

std::vector<Subject> subjects() {
  const Along two{.window = 2, .same = true}, three{.window = 3, .same = true};
  return {
      {"same", {2, 5, 3, 4, 2}, 3, {three, two, three}},
      {"valid, strides that do not divide", {2, 7, 4, 3, 2}, 3, {Along{3, 2}, {2, 3}, {2}}},
      {"strides that leave planes out", {1, 8, 2, 3, 2}, 2, {Along{2, 3}, two, two}},
      {"dilation", {1, 6, 3, 4, 2}, 2, {Along{3, 2, 2, true}, two, {2, 1, 2, true}}},
      {"a window of more planes than there are",
       {1, 2, 3, 2, 2},
       2,
       {Along{6, 1, 1, true}, two, two}},
      {"one plane", {2, 3, 5, 4, 2}, 3, {Along{}, three, three}},
      {"one plane of several", {2, 5, 3, 2, 2}, 2, {Along{1, 2}, two, two}},
      {"groups that ranks can share out", {1, 4, 2, 2, 6}, 12, {two, two, two}, 6},
      {"groups that no rank gets whole", {1, 3, 2, 2, 4}, 10, {three, two, two}, 2},
  };
}

OperationCase convolution_case(const Subject& of) {
  return {.inputs = {random_tensor(of.x, 1),
                     random_tensor({of.windows[0].window, of.windows[1].window,
                                    of.windows[2].window, of.x[4] / of.groups, of.filters},
                                   2)},
          .output_gradient = random_tensor(output_shape(of.windows, of.x, of.filters), 3)};
}

Tensor convolved(const Subject& of, const Tensor& x, const Tensor& kernel) {
  Tensor y(output_shape(of.windows, of.x, of.filters));
  const std::int64_t channels = of.x[4] / of.groups;
  for_each_place(of.windows, of.x,
                 [&](const Index& output, const Index& place, const Index& input) {
                   for (std::int64_t n = 0; n < of.x[0]; ++n) {
                     for (std::int64_t f = 0; f < of.filters; ++f) {
                       const std::int64_t first = f / (of.filters / of.groups) * channels;
                       for (std::int64_t c = 0; c < channels; ++c) {
                         y.values[offset(y.shape, n, output) + f] +=
                             x.values[offset(x.shape, n, input) + first + c] *
                             kernel.values[kernel_offset(kernel.shape, place) + c * of.filters + f];
                       }
                     }
                   }
                 });
  return y;
}

/// Every element of x, (as y of a convolution), laid onto the volume of shape `of.x`.
Tensor laid_out(const Subject& of, const Tensor& x, const Tensor& kernel) {
  Tensor y(of.x);
  for_each_place(of.windows, of.x, [&](const Index& from, const Index& place, const Index& onto) {
    for (std::int64_t n = 0; n < of.x[0]; ++n) {
      for (std::int64_t f = 0; f < of.filters; ++f) {
        for (std::int64_t c = 0; c < of.x[4]; ++c) {
          y.values[offset(y.shape, n, onto) + c] +=
              x.values[offset(x.shape, n, from) + f] *
              kernel.values[kernel_offset(kernel.shape, place) + c * of.filters + f];
        }
      }
    }
  });
  return y;
}

}  // namespace

TEST_CASE("a convolution of volumes is the sum over windows and channels") {
  for (const Subject& subject : subjects()) {
    INFO(subject.name);
    const OperationCase what = convolution_case(subject);
    const ConvolutionOperation operation(sliding(subject.windows), subject.groups);
    CHECK(difference(run_whole(operation, what).output,
                     convolved(subject, what.inputs[0], what.inputs[1]), 1e-6) == "");
    check_gradients(operation, what);
  }
}

TEST_CASE("a convolution of volumes agrees with the truth over every split") {
  for (const Subject& subject : subjects()) {
    INFO(subject.name);
    check_strategies(ConvolutionOperation(sliding(subject.windows), subject.groups),
                     convolution_case(subject));
  }
}

TEST_CASE("a transposed convolution lays windows onto a volume") {
  const Along two{.window = 2, .same = true};
  const std::vector<Subject> all{
      {"same", {1, 6, 4, 6, 2}, 3, {Along{3, 2, 1, true}, {2, 2, 1, true}, {3, 3, 1, true}}},
      {"valid", {1, 7, 3, 5, 2}, 2, {Along{3, 2}, {2}, {3, 2}}},
      {"windows apart", {2, 6, 2, 3, 2}, 2, {Along{1, 3, 1, true}, two, two}},
  };
  for (const Subject& subject : all) {
    INFO(subject.name);
    const OperationCase convolution = convolution_case(subject);
    const OperationCase what{.inputs = {*convolution.output_gradient, convolution.inputs[1]},
                             .output_gradient = convolution.inputs[0]};
    const TransposedConvolutionOperation operation(sliding(subject.windows));
    CHECK(difference(run_whole(operation, what).output,
                     laid_out(subject, what.inputs[0], what.inputs[1]), 1e-6) == "");
    check_gradients(operation, what);
    check_strategies(operation, what);
  }
}

TEST_CASE("pooling of volumes is the maximum or the mean of what is no padding") {
  const std::vector<Subject> all{
      {"two by two by two", {2, 5, 4, 3, 2}, 2, {Along{2, 2}, {2, 2}, {2, 2}}},
      {"same, overlapping",
       {1, 5, 4, 3, 2},
       2,
       {Along{3, 2, 1, true}, {2, 1, 1, true}, {3, 1, 1, true}}},
      {"one plane", {2, 3, 5, 4, 1}, 1, {Along{}, {3, 2, 1, true}, {2, 2, 1, true}}},
  };
  for (const Subject& subject : all) {
    INFO(subject.name);
    const Shape& shape = subject.x;
    OperationCase what{
        .inputs = {Tensor(shape)},
        .output_gradient = random_tensor(output_shape(subject.windows, shape, shape[4]), 2)};
    const std::int64_t count = element_count(shape);
    for (std::int64_t i = 0; i < count; ++i) {  // all different
      what.inputs[0].values[i] = static_cast<double>(i * 37 % count) * 0.0625;
    }
    Tensor maxima(what.output_gradient->shape), means = maxima, counts = maxima;
    for (double& value : maxima.values) value = -1e9;
    for_each_place(subject.windows, shape,
                   [&](const Index& output, const Index&, const Index& input) {
                     for (std::int64_t n = 0; n < shape[0]; ++n) {
                       for (std::int64_t c = 0; c < shape[4]; ++c) {
                         const std::size_t to = offset(maxima.shape, n, output) + c;
                         const double value = what.inputs[0].values[offset(shape, n, input) + c];
                         maxima.values[to] = std::max(maxima.values[to], value);
                         means.values[to] += value;
                         counts.values[to] += 1;
                       }
                     }
                   });
    for (std::size_t i = 0; i < means.values.size(); ++i) means.values[i] /= counts.values[i];
    for (const Pooling pooling : {Pooling::maximum, Pooling::average}) {
      const PoolingOperation operation(pooling, sliding(subject.windows));
      CHECK(difference(run_whole(operation, what).output,
                       pooling == Pooling::maximum ? maxima : means, 1e-6) == "");
      check_gradients(operation, what);
      check_strategies(operation, what);
    }
  }
}

TEST_CASE("of equal maxima of a volume the first takes the gradient") {
  const PoolingOperation operation(Pooling::maximum, {{2, 2}, {2, 2}, {2, 2}});
  const OperationCase what{.inputs = {Tensor({1, 2, 2, 2, 1}, {0, 7, 7, 7, 7, 7, 0, 0})},
                           .output_gradient = Tensor({1, 1, 1, 1, 1}, {3})};
  CHECK(run_whole(operation, what).gradients[0]->values ==
        std::vector<double>{0, 3, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("upsampling of volumes and of sequences repeats elements") {
  const UpsamplingOperation operation({2, 1, 3}, Interpolation::nearest);
  const OperationCase what = case_of(operation, {2, 3, 2, 2, 2});
  Tensor expected({2, 6, 2, 6, 2});
  for (std::int64_t n = 0; n < 2; ++n) {
    for (std::int64_t i = 0; i < 72; ++i) {
      const Index at{i / 12, i / 6 % 2, i % 6}, from{at[0] / 2, at[1], at[2] / 3};
      for (std::int64_t c = 0; c < 2; ++c) {
        expected.values[offset(expected.shape, n, at) + c] =
            what.inputs[0].values[offset(what.inputs[0].shape, n, from) + c];
      }
    }
  }
  CHECK(difference(run_whole(operation, what).output, expected, 0) == "");
  check_gradients(operation, what);
  check_strategies(operation, what);

  const UpsamplingOperation steps({3}, Interpolation::nearest);
  const OperationCase sequence{.inputs = {Tensor({1, 2, 1}, {5, 7})},
                               .output_gradient = Tensor({1, 6, 1}, {1, 2, 3, 4, 5, 6})};
  const OperationResult found = run_whole(steps, sequence);
  CHECK(found.output.values == std::vector<double>{5, 5, 5, 7, 7, 7});
  CHECK(found.gradients[0]->values == std::vector<double>{6, 15});
  check_strategies(steps, case_of(steps, {2, 7, 3}));
}

}  // namespace meshwork::volumes_test

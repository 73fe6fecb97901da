// How fast a device's kernels are: matrix products in GFLOP/s, passes over memory in GB/s; on the
// CPU both on this rank's threads (OMP_NUM_THREADS).
//
//   benchmarks/kernels [--device cpu|cuda] [word...]
//
// The shapes are those of a 784-256-256-10 network on batches of 64, of a wide one, of the network
// of configs/fashion_mnist_convnet.yaml on batches of 64 and 512, of
// configs/volume_regression.yaml, and of GPT-2 (124M) on 1,024 places. Names of kernels that contain
// one of the arguments' words are measured, all without arguments. A kernel is run until a sample
// takes some milliseconds; of 21 samples the table shows the median, and the fastest and slowest
// behind it. Operands stay where they are, so what fits a cache is measured there, as in a training
// step. Of a kernel that has candidates (kernel_candidates.h), each has a line; the first is what
// runs without timing.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "runtime/device/convolution_counts.h"
#include "runtime/device/device.h"
#include "runtime/device/kernels/adam.h"
#include "runtime/device/kernels/attention.h"
#include "runtime/device/kernels/classes.h"
#include "runtime/device/kernels/convolution.h"
#include "runtime/device/kernels/copies.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/losses.h"
#include "runtime/device/kernels/middle.h"
#include "runtime/device/kernels/normalization.h"
#include "runtime/device/kernels/norms.h"
#include "runtime/device/kernels/pooling.h"
#include "runtime/device/kernels/products.h"
#include "runtime/device/kernels/rmsprop.h"
#include "runtime/device/kernels/rows.h"
#include "runtime/device/kernels/sgd.h"
#include "runtime/device/kernels/upsampling.h"

namespace meshwork {

namespace {

constexpr int sample_count = 21;
constexpr double seconds_a_sample = 0.004;

/// What a run of a kernel does, and in which unit that is shown.
struct Work {
  double amount;
  std::string_view unit;
};

struct Case {
  KernelSpec spec;
  std::vector<std::int64_t> operand_bytes;
  Work work;
};

Case product(MatmulSpec s) {
  std::vector<std::int64_t> bytes{s.m * s.k * 4, s.k * s.n * 4};
  if (s.bias) bytes.push_back(s.n * 4);
  bytes.push_back(s.m * s.n * 4);
  return {s,
          bytes,
          {2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k),
           "GFLOP/s"}};
}

/// A pass over operands of these many bytes each, of which `traffic` are read and written in all.
Case pass(KernelSpec spec, std::vector<std::int64_t> bytes, std::int64_t traffic) {
  return {std::move(spec), std::move(bytes), {static_cast<double>(traffic), "GB/s"}};
}

/// `same` padding in one dimension, as Keras divides it.
WindowDimension same(std::int64_t input, std::int64_t window, std::int64_t stride) {
  const std::int64_t output = (input + stride - 1) / stride;
  const std::int64_t total = std::max<std::int64_t>((output - 1) * stride + window - input, 0);
  return {input, output, window, stride, 1, total / 2};
}

/// A convolution with its gradients; without the one by the input in the first layer.
void add_convolution_alone(std::vector<Case>& all, const ConvolutionShape& at, bool first) {
  const std::int64_t x = input_count(at) * 4, kernel = kernel_count(at) * 4;
  const std::int64_t y = output_count(at) * 4;
  const Work work{ConvolutionSpec{at}.work().flops, "GFLOP/s"};
  all.push_back({ConvolutionSpec{at}, {x, kernel, y}, work});
  if (!first) all.push_back({ConvolutionInputGradientSpec{at}, {y, kernel, x}, work});
  all.push_back({ConvolutionKernelGradientSpec{at}, {x, y, kernel}, work});
}

/// The same and the batch normalization with relu behind it.
void add_convolution(std::vector<Case>& all, const ConvolutionShape& at, bool first) {
  add_convolution_alone(all, at, first);
  const std::int64_t rows = at.batch * at.rows.output * at.columns.output;
  const std::int64_t y = rows * at.filters * 4;
  const std::int64_t channels = at.filters, c = channels * 4, z = 2 * channels * 8;
  const NormalizationShape normal{rows, channels, false, true, Activation::relu};
  all.push_back(pass(ChannelMomentsSpec{rows, channels}, {y, z}, y));
  all.push_back(pass(ChannelStatisticsSpec{channels, rows}, {z, c, c, c, c, c, c}, z));
  all.push_back(pass(NormalizeSpec{normal}, {y, c, c, c, y}, 2 * y));
  all.push_back(pass(NormalizeGradientSumsSpec{normal}, {y, y, c, c, c, z}, 2 * y));
  all.push_back(pass(NormalizeGradientSpec{normal, rows}, {y, y, c, c, c, z, y}, 3 * y));
}

void add_convolutional_network(std::vector<Case>& all, std::int64_t batch) {
  add_convolution(all, {batch, {}, same(28, 3, 1), same(28, 3, 1), 1, 12}, true);
  add_convolution(all, {batch, {}, same(28, 6, 2), same(28, 6, 2), 12, 24}, false);
  add_convolution(all, {batch, {}, same(14, 6, 2), same(14, 6, 2), 24, 32}, false);
  const std::int64_t inner = 32, middle = 49, y = batch * inner * 4;
  all.push_back(pass(MiddleSumSpec{batch, middle, inner, 1}, {middle * y, y}, middle * y));
  all.push_back(pass(MiddleBroadcastSpec{batch, middle, inner, 1}, {y, middle * y}, middle * y));
}

/// Maximum pooling of `x` elements to `y`, and its gradient.
void add_maximum(std::vector<Case>& all, const PoolingShape& at, std::int64_t x, std::int64_t y) {
  all.push_back(pass(MaximumPoolingSpec{at, true}, {4 * x, 4 * y, y}, 4 * x + 5 * y));
  all.push_back(pass(MaximumPoolingGradientSpec{at}, {y, 4 * y, 4 * x}, 4 * x + 5 * y));
}

/// The convolutions of configs/volume_regression.yaml and the pooling behind each.
void add_volume_network(std::vector<Case>& all) {
  constexpr std::int64_t batch = 4;
  std::int64_t channels = 4, filters = 32;
  for (std::int64_t side = 64; side > 2; side /= 2, channels = filters, filters *= 2) {
    const WindowDimension along = same(side, 2, 1), halves = same(side, 2, 2);
    add_convolution_alone(all, {batch, along, along, along, channels, filters}, side == 64);
    const std::int64_t y = batch * side * side * side * filters;
    add_maximum(all, {batch, halves, halves, halves, filters}, y, y / 8);
  }
}

/// Causal attention: of a small network, and of GPT-2 on short and long sequences; once with
/// dropout.
void add_attention(std::vector<Case>& all) {
  struct Sizes {
    std::int64_t batch, length, heads, elements;
    float dropout = 0;
  };
  for (const auto& [batch, length, heads, elements, dropout] :
       {Sizes{12, 64, 4, 32}, Sizes{4, 64, 12, 64}, Sizes{1, 1024, 12, 64},
        Sizes{1, 1024, 12, 64, 0.1f}, Sizes{1, 4096, 12, 64}}) {
    const AttentionShape at{.batch = batch,
                            .queries = length,
                            .keys = length,
                            .heads = heads,
                            .key_heads = heads,
                            .key_length = elements,
                            .value_length = elements,
                            .scale = 0.125f,
                            .causal = true,
                            .dropout = dropout,
                            .all_heads = heads,
                            .all_queries = length,
                            .all_keys = length};
    const std::int64_t x = batch * length * heads * elements * 4, l = batch * heads * length * 4;
    const auto measure = [&](const KernelSpec& kernel, std::vector<std::int64_t> bytes,
                             const std::vector<std::int64_t>& written) {
      if (dropout > 0) bytes.push_back(static_cast<std::int64_t>(sizeof(StepScalars)));
      bytes.insert(bytes.end(), written.begin(), written.end());
      all.push_back({kernel, std::move(bytes), {kernel.work().flops, "GFLOP/s"}});
    };
    measure(AttentionSpec{at}, {x, x, x}, {x, l});
    measure(AttentionGradientSpec{at}, {x, x, x, x, l, x}, {x, x, x});
  }
}

/// The products of a step of GPT-2 (124M) on one sample of 1,024 places, with a table of 50,257 words
/// that is used on both sides.
void add_gpt2(std::vector<Case>& all) {
  constexpr std::int64_t places = 1024, width = 768, hidden = 4 * width, words = 50257;
  for (const auto& [in, out] :
       {std::pair{width, width}, std::pair{width, hidden}, std::pair{hidden, width}}) {
    all.push_back(product({.m = places, .n = out, .k = in, .bias = true}));
    all.push_back(product({.m = places, .n = in, .k = out, .transpose_b = true}));
    all.push_back(product({.m = in, .n = out, .k = places, .transpose_a = true}));
  }
  all.push_back(product({.m = places, .n = words, .k = width, .transpose_b = true}));
  all.push_back(product({.m = places, .n = width, .k = words}));
  all.push_back(product({.m = words, .n = width, .k = places, .transpose_a = true}));
}

/// Pooling and upsampling by two, of images as they are in the middle of that network.
void add_resampling(std::vector<Case>& all, std::int64_t batch) {
  const std::int64_t channels = 24, small = batch * 14 * 14 * channels, large = 4 * small;
  const WindowDimension halves{28, 14, 2, 2, 1, 0};
  const PoolingShape pooling{batch, {}, halves, halves, channels};
  add_maximum(all, pooling, large, small);
  all.push_back(pass(AveragePoolingSpec{pooling}, {4 * large, 4 * small}, 4 * (large + small)));
  all.push_back(
      pass(AveragePoolingGradientSpec{pooling}, {4 * small, 4 * large}, 4 * (large + small)));
  const UpsamplingDimension twice{14, 28, 0, 14, 0, 28};
  for (const Interpolation interpolation : {Interpolation::nearest, Interpolation::bilinear}) {
    const UpsamplingShape at{batch, twice, twice, channels, interpolation};
    all.push_back(pass(UpsamplingSpec{at}, {4 * small, 4 * large}, 4 * (large + small)));
    all.push_back(pass(UpsamplingGradientSpec{at}, {4 * large, 4 * small}, 4 * (large + small)));
  }
  // Permute: (batch, positions, channels) to (batch, channels, positions) and back; and what the
  // same bytes take without a transposition.
  constexpr std::int64_t positions = 784;
  const auto copied = [&](std::vector<std::int64_t> extents, std::vector<std::int64_t> source) {
    const std::vector<std::int64_t> destination{extents[1] * extents[2], extents[2], 1};
    all.push_back(pass(CopySpec{ElementType::float32,
                                {{std::move(extents), 0, 0, std::move(source), destination}}},
                       {4 * large, 4 * large}, 8 * large));
  };
  copied({batch, channels, positions}, {positions * channels, 1, channels});
  copied({batch, positions, channels}, {positions * channels, 1, positions});
  copied({batch, positions, channels}, {positions * channels, channels, 1});
}

/// The products of a step of the wide network, 1024-4096-4096-10, on `batch` rows.
void add_wide_network(std::vector<Case>& all, std::int64_t batch, Precision precision,
                      bool narrow) {
  const auto add = [&](MatmulSpec spec) {
    spec.precision = precision;
    spec.narrow = narrow;
    all.push_back(product(spec));
  };
  for (const auto& [in, out] : {std::pair{1024, 4096}, {4096, 4096}, {4096, 10}}) {
    const Activation activation = out == 10 ? Activation::linear : Activation::relu;
    add({.m = batch, .n = out, .k = in, .bias = true, .activation = activation});
    if (in != 1024) add({.m = batch, .n = in, .k = out, .transpose_b = true});
    add({.m = in, .n = out, .k = batch, .transpose_a = true});
  }
}

std::vector<Case> cases(Device& device) {
  std::vector<Case> all;
  constexpr std::int64_t batch = 64, in = 784, hidden = 256, out = 10;
  const auto relu = Activation::relu;
  all.push_back(product({.m = batch, .n = hidden, .k = in}));
  all.push_back(product({.m = batch, .n = hidden, .k = in, .bias = true, .activation = relu}));
  all.push_back(product({.m = batch, .n = hidden, .k = hidden, .bias = true, .activation = relu}));
  all.push_back(product({.m = batch, .n = out, .k = hidden, .bias = true}));
  all.push_back(product({.m = hidden, .n = out, .k = batch, .transpose_a = true}));
  all.push_back(product({.m = batch, .n = hidden, .k = out, .transpose_b = true}));
  all.push_back(product({.m = hidden, .n = hidden, .k = batch, .transpose_a = true}));
  all.push_back(product({.m = batch, .n = hidden, .k = hidden, .transpose_b = true}));
  all.push_back(product({.m = in, .n = hidden, .k = batch, .transpose_a = true}));

  // On two ranks each has half of a batch of 256.
  for (const Precision precision : all_precisions) {
    if (precision != Precision::float32 && !device.is_faster_in(precision)) continue;
    const bool narrow = precision == Precision::bfloat16 && device.traits().reads_narrow_operands;
    for (const std::int64_t rows : {256, 128}) add_wide_network(all, rows, precision, narrow);
  }

  for (const std::int64_t count : {std::int64_t{269322}, std::int64_t{21000000}}) {
    const std::int64_t bytes = count * 4;
    const auto scalars = static_cast<std::int64_t>(sizeof(StepScalars));
    all.push_back(pass(SgdSpec{.count = count}, {scalars, bytes, bytes}, 3 * bytes));
    all.push_back(
        pass(SgdSpec{.count = count, .momentum = 0.9f}, {scalars, bytes, bytes, bytes}, 5 * bytes));
    all.push_back(pass(AdamSpec{.count = count}, {scalars, bytes, bytes, bytes, bytes}, 7 * bytes));
    all.push_back(pass(RmspropSpec{.count = count}, {scalars, bytes, bytes, bytes}, 5 * bytes));
    all.push_back(pass(PowerSumSpec{count, 2}, {bytes, 8}, bytes));
  }

  const std::int64_t count = batch * hidden, bytes = count * 4;
  for (const Activation activation :
       {Activation::relu, Activation::gelu, Activation::sigmoid, Activation::tanh}) {
    all.push_back(pass(ActivationSpec{activation, count}, {bytes, bytes}, 2 * bytes));
  }
  all.push_back(pass(ActivationGradientSpec{relu, count}, {bytes, bytes, bytes}, 3 * bytes));
  all.push_back(pass(ActivationGradientSpec{relu, count, 0.6f}, {bytes, bytes, bytes}, 3 * bytes));
  all.push_back(pass(ConvertSpec{batch * in, ElementType::uint8}, {batch * in, batch * in * 4},
                     5 * batch * in));
  all.push_back(pass(ConvertSpec{batch * in, ElementType::uint8, 1.0f / 255},
                     {batch * in, batch * in * 4}, 5 * batch * in));
  all.push_back(pass(RectifySpec{{}, count}, {bytes, bytes}, 2 * bytes));
  all.push_back(pass(RectifyGradientSpec{{}, count}, {bytes, bytes, bytes}, 3 * bytes));
  all.push_back(pass(AffineSpec{count, 2, 1}, {bytes, bytes}, 2 * bytes));
  all.push_back(pass(BiasAddSpec{batch, hidden, relu}, {bytes, hidden * 4, bytes}, 2 * bytes));
  all.push_back(pass(ScaleBySpec{count}, {4, bytes}, 2 * bytes));
  all.push_back(pass(ClampSpec{count, 1}, {bytes}, 2 * bytes));
  all.push_back(pass(PenaltyGradientSpec{count, 1e-3f, 1e-3f}, {bytes, bytes}, 3 * bytes));
  all.push_back(pass(SquaredErrorSpec{count, 1}, {bytes, bytes, 8}, 2 * bytes));
  all.push_back(pass(SquaredErrorGradientSpec{count, 1}, {bytes, bytes, bytes}, 3 * bytes));
  for (const bool from_logits : {false, true}) {
    all.push_back(
        pass(BinaryCrossentropySpec{count, 1, from_logits, 0}, {bytes, bytes, 8}, 2 * bytes));
    all.push_back(pass(BinaryCrossentropyGradientSpec{count, 1, from_logits, 0},
                       {bytes, bytes, bytes}, 3 * bytes));
  }
  all.push_back(pass(DropoutSpec{0.4f, 1, {batch, hidden}, {{0, batch}, {0, hidden}}},
                     {bytes, static_cast<std::int64_t>(sizeof(StepScalars)), bytes}, 2 * bytes));
  all.push_back(pass(ColumnSumSpec{batch, hidden}, {bytes, hidden * 4}, bytes));
  all.push_back(
      pass(CopySpec{ElementType::float32, {{{hidden, batch}, 0, 0, {1, hidden}, {batch, 1}}}},
           {bytes, bytes}, 2 * bytes));
  const std::int64_t rows = batch * 4, logits = batch * out * 4;
  const ClassColumns at{.rows = batch, .columns = out, .classes = out};
  all.push_back(pass(RowMaximumSpec{batch, out}, {logits, rows}, logits));
  all.push_back(pass(RowExponentialSpec{batch, out}, {logits, rows, logits, rows}, 2 * logits));
  all.push_back(pass(LogitStatisticsSpec{at}, {logits, rows, rows, 3 * rows}, logits));
  all.push_back(pass(LogitLossSpec{batch}, {3 * rows, 8}, 3 * rows));
  all.push_back(pass(LogitGradientSpec{at}, {logits, rows, rows, 3 * rows, logits}, 2 * logits));
  all.push_back(pass(ProbabilityLossSpec{at}, {logits, rows, rows, 8, rows}, logits));
  all.push_back(pass(SoftmaxSpec{batch, out}, {logits, logits}, 2 * logits));
  all.push_back(pass(
      ClassComparisonSpec{
          .at = at, .crossentropy = Crossentropy::of_logits, .gradient = true, .within = {1}},
      {logits, rows, 8, logits, 8}, 2 * logits));

  for (const std::int64_t images : {std::int64_t{64}, std::int64_t{512}}) {
    add_convolutional_network(all, images);
  }
  add_volume_network(all);
  add_attention(all);
  add_gpt2(all);
  add_resampling(all, batch);
  return all;
}

/// `name` stands behind that of the specification.
void measure(Device& device, const Case& of, std::unique_ptr<Kernel> kernel,
             const std::string& name) {
  std::vector<Memory> memories;
  std::vector<void*> operands;
  const auto add = [&](std::int64_t bytes) {
    memories.push_back(device.allocate(bytes));
    operands.push_back(memories.back().data());
    // Small positive numbers, lest products with zero or with nothing be special.
    if (bytes % 4 == 0) {
      const std::vector<float> numbers(static_cast<std::size_t>(bytes / 4), 0.01f);
      device.copy_in(operands.back(), numbers.data(), bytes);
    }
  };
  for (const std::int64_t bytes : of.operand_bytes) add(bytes);
  if (kernel->workspace_bytes() > 0) add(kernel->workspace_bytes());

  const auto seconds_for = [&](std::int64_t runs) {
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < runs; ++i) kernel->run(operands.data());
    device.synchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  seconds_for(1);
  std::int64_t runs = 1;
  while (seconds_for(runs) < seconds_a_sample) runs *= 2;
  std::vector<double> seconds;
  for (int sample = 0; sample < sample_count; ++sample) {
    seconds.push_back(seconds_for(runs) / static_cast<double>(runs));
  }
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  fmt::print("{:<72} {:>10.2f} us {:>8.1f} {:<7} ({:.2f} to {:.2f} us)\n", of.spec.text() + name,
             median * 1e6, of.work.amount / median * 1e-9, of.work.unit, seconds.front() * 1e6,
             seconds.back() * 1e6);
}

void measure(Device& device, const Case& of) {
  const std::vector<KernelCandidate> candidates = device.candidates(of.spec);
  for (const KernelCandidate& candidate : candidates) {
    measure(device, of, candidate.compile(), ", " + candidate.name);
  }
  if (candidates.empty()) measure(device, of, device.compile(of.spec), "");
}

}  // namespace

}  // namespace meshwork

int main(int argument_count, char** arguments) {
  std::vector<std::string> words(arguments + 1, arguments + argument_count);
  std::string kind = "cpu";
  if (words.size() >= 2 && words[0] == "--device") {
    kind = words[1];
    words.erase(words.begin(), words.begin() + 2);
  }
  try {
    const auto device = meshwork::make_device({.kind = kind});
    fmt::print("{}\n", device->description());
    for (const auto& one : meshwork::cases(*device)) {
      const std::string name = one.spec.text();
      const bool wanted = std::any_of(words.begin(), words.end(), [&](const std::string& word) {
        return name.find(word) != name.npos;
      });
      if (wanted || words.empty()) meshwork::measure(*device, one);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}

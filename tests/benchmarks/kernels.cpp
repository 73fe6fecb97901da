// How fast the CPU's kernels are: matrix products in GFLOP/s, passes over memory in GB/s, both on
// this rank's threads (OMP_NUM_THREADS).
//
// The shapes are those of a 784-256-256-10 network on batches of 64, and of a wide one. A kernel is
// run until a sample takes some milliseconds; of 21 samples the table shows the median, and the
// fastest and slowest behind it. Operands stay where they are, so what fits a cache is measured
// there, as in a training step.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "runtime/device/device.h"

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

std::vector<Case> cases() {
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
  all.push_back(product({.m = 256, .n = 4096, .k = 1024, .bias = true, .activation = relu}));
  all.push_back(product({.m = 1024, .n = 4096, .k = 256, .transpose_a = true}));
  all.push_back(product({.m = 256, .n = 4096, .k = 4096, .transpose_b = true}));

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
  all.push_back(pass(ConvertSpec{batch * in, ElementType::uint8}, {batch * in, batch * in * 4},
                     5 * batch * in));
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
  return all;
}

void measure(Device& device, const Case& of) {
  const std::unique_ptr<Kernel> kernel = device.compile(of.spec);
  std::vector<Memory> memories;
  std::vector<void*> operands;
  const auto add = [&](std::int64_t bytes) {
    memories.push_back(device.allocate(bytes));
    operands.push_back(memories.back().data());
    // Small positive numbers, lest products with zero or with nothing be special.
    if (bytes % 4 == 0) {
      std::fill_n(static_cast<float*>(operands.back()), bytes / 4, 0.01f);
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
  fmt::print("{:<44} {:>10.2f} us {:>8.1f} {:<7} ({:.2f} to {:.2f} us)\n", describe(of.spec),
             median * 1e6, of.work.amount / median * 1e-9, of.work.unit, seconds.front() * 1e6,
             seconds.back() * 1e6);
}

}  // namespace

}  // namespace meshwork

int main() {
  try {
    const auto device = meshwork::make_device({.kind = "cpu"});
    fmt::print("{}\n", device->description());
    for (const auto& one : meshwork::cases()) meshwork::measure(*device, one);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}

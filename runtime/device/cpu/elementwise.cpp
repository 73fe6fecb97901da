// Kernels whose bodies all devices share, in the CPU's loops; sums of tensors and of scalars.
#include "runtime/device/bodies/elementwise.h"

#include "runtime/device/bodies/losses.h"
#include "runtime/device/bodies/scalars.h"
#include "runtime/device/cpu/loops.h"
#include "runtime/device/cpu/vector_math.h"

namespace meshwork::cpu {

namespace {

struct Loops {
  struct Math {
    static float exp(float x) { return vector_exp(x); }
    static float log(float x) { return vector_log(x); }
    static float log1p(float x) { return vector_log1p(x); }
    static float sigmoid(float x) { return vector_sigmoid(x); }
    static float tanh(float x) { return vector_tanh(x); }
    static float normal_cdf(float x) { return vector_normal_cdf(x); }
  };

  static KernelPointer elements(const Context& context, std::int64_t count, std::int64_t bytes,
                                auto make) {
    return make_kernel([=, threads = context.threads](void* const* operands) {
      const auto body = make(operands);
      for_ranges(threads, count, bytes, [=](std::int64_t begin, std::int64_t end) {
        const auto own = body;  // whose values stay in registers
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) own(i);
      });
    });
  }
  static KernelPointer grid(const Context& context, std::int64_t rows, std::int64_t columns,
                            std::int64_t bytes, auto make) {
    return make_kernel([=, threads = context.threads](void* const* operands) {
      const auto body = make(operands);
      for_rows(threads, rows, columns * bytes, [=](std::int64_t row) {
#pragma omp simd
        for (std::int64_t j = 0; j < columns; ++j) body(row, j, row * columns + j);
      });
    });
  }
  static KernelPointer sum(const Context& context, std::int64_t count, std::int64_t bytes,
                           int operand_count, double scale, auto make) {
    return make_kernel([=, threads = context.threads](void* const* operands) {
      const auto part_sum = [body = make(operands)](std::int64_t begin, std::int64_t end) {
        return lane_sum(begin, end, body);
      };
      *at<double>(operands, operand_count - 1) = scale * fixed_sum(threads, count, bytes, part_sum);
    });
  }
};

KernelPointer compile(const SumSpec& spec, const Context& context) {
  const int inputs = spec.inputs;
  if (inputs == 1) return bodies::map_one<Loops>(context, spec.count, bodies::Linear{});
  return make_kernel([=, threads = context.threads](void* const* operands) {
    float* y = at(operands, inputs);
    for_ranges(threads, spec.count, 4 * (inputs + 1), [=](std::int64_t begin, std::int64_t end) {
      // Stretches that stay in the first cache from one input to the next.
      constexpr std::int64_t stretch = 2048;
      for (std::int64_t from = begin; from < end; from += stretch) {
        const std::int64_t to = std::min(from + stretch, end);
        const float* a = at(operands, 0);
        for (int input = 1; input < inputs; ++input) {
          const float* b = at(operands, input);
#pragma omp simd
          for (std::int64_t i = from; i < to; ++i) y[i] = a[i] + b[i];
          a = y;
        }
      }
    });
  });
}

KernelPointer compile(const WeightedSumSpec& spec, const Context&) {
  return make_kernel([factors = spec.factors](void* const* operands) {
    const double* x = at<const double>(operands, 0);
    double sum = 0;
    for (std::size_t i = 0; i < factors.size(); ++i) sum += factors[i] * x[i];
    *at<double>(operands, 1) = sum;
  });
}

}  // namespace

void add_elementwise(Kernels& kernels) {
  bodies::add_elementwise<Loops>(kernels);
  bodies::add_losses<Loops>(kernels);
  bodies::add_scalars<Loops>(kernels);
  kernels.add<SumSpec, WeightedSumSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cpu

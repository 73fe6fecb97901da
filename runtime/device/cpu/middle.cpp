// Reductions over a middle dimension, as global pooling needs them, and their gradients.
//
// A tile of the inner dimension stays in registers or in the first cache while the middle one
// passes by; sums are formed in double. Outer indices are shared out among threads. Bound by memory
// traffic.
#include <algorithm>
#include <limits>

#include "runtime/device/cpu/loops.h"
#include "runtime/device/kernels/middle.h"

namespace meshwork::cpu {

namespace {

constexpr std::int64_t tile = 64;

/// body(outer, first inner, inners, offset of the first element in x, in y) for tiles of `inner`.
template <class Body>
void for_tiles(int threads, std::int64_t outer, std::int64_t middle, std::int64_t inner,
               std::int64_t bytes, const Body& body) {
  for_rows(threads, outer, middle * inner * bytes, [&](std::int64_t o) {
    for (std::int64_t j = 0; j < inner; j += tile) {
      body(std::min(tile, inner - j), o * middle * inner + j, o * inner + j);
    }
  });
}

/// Whether x is the maximum m; NaN is NaN.
inline bool is_maximum(float x, float m) {
  return x == m || (x != x && m != m);
}

KernelPointer compile(const MiddleSumSpec& spec, const Context& context) {
  return make_kernel([=, threads = context.threads](void* const* operands) {
    const float* x = at(operands, 0);
    float* y = at(operands, 1);
    if (spec.inner == 1) {
      for_rows(threads, spec.outer, spec.middle * 4, [=](std::int64_t o) {
        const double sum =
            lane_sum(o * spec.middle, (o + 1) * spec.middle, [=](std::int64_t i) { return x[i]; });
        y[o] = static_cast<float>(static_cast<double>(spec.scale) * sum);
      });
      return;
    }
    for_tiles(threads, spec.outer, spec.middle, spec.inner, 4,
              [=](std::int64_t inners, std::int64_t from, std::int64_t to) {
                double sums[tile] = {};
                for (std::int64_t i = 0; i < spec.middle; ++i) {
                  const float* row = x + from + i * spec.inner;
#pragma omp simd
                  for (std::int64_t j = 0; j < inners; ++j) sums[j] += static_cast<double>(row[j]);
                }
                for (std::int64_t j = 0; j < inners; ++j) {
                  y[to + j] = static_cast<float>(static_cast<double>(spec.scale) * sums[j]);
                }
              });
  });
}

KernelPointer compile(const MiddleBroadcastSpec& spec, const Context& context) {
  return make_kernel([=, threads = context.threads](void* const* operands) {
    const float* x = at(operands, 0);
    float* y = at(operands, 1);
    for_tiles(threads, spec.outer, spec.middle, spec.inner, 4,
              [=](std::int64_t inners, std::int64_t to, std::int64_t from) {
                float values[tile];
                for (std::int64_t j = 0; j < inners; ++j) values[j] = spec.scale * x[from + j];
                for (std::int64_t i = 0; i < spec.middle; ++i) {
                  std::copy_n(values, inners, y + to + i * spec.inner);
                }
              });
  });
}

KernelPointer compile(const MiddleMaximumSpec& spec, const Context& context) {
  return make_kernel([=, threads = context.threads](void* const* operands) {
    const float* x = at(operands, 0);
    float* m = at(operands, 1);
    for_tiles(threads, spec.outer, spec.middle, spec.inner, 4,
              [=](std::int64_t inners, std::int64_t from, std::int64_t to) {
                float best[tile];
                std::fill_n(best, tile, -std::numeric_limits<float>::infinity());
                for (std::int64_t i = 0; i < spec.middle; ++i) {
                  const float* row = x + from + i * spec.inner;
#pragma omp simd
                  for (std::int64_t j = 0; j < inners; ++j) {
                    best[j] = row[j] > best[j] || row[j] != row[j] ? row[j] : best[j];
                  }
                }
                std::copy_n(best, inners, m + to);
              });
  });
}

KernelPointer compile(const MiddleTiesSpec& spec, const Context& context) {
  return make_kernel([=, threads = context.threads](void* const* operands) {
    const float* x = at(operands, 0);
    const float* m = at(operands, 1);
    float* t = at(operands, 2);
    for_tiles(threads, spec.outer, spec.middle, spec.inner, 4,
              [=](std::int64_t inners, std::int64_t from, std::int64_t to) {
                std::int32_t ties[tile] = {};
                for (std::int64_t i = 0; i < spec.middle; ++i) {
                  const float* row = x + from + i * spec.inner;
#pragma omp simd
                  for (std::int64_t j = 0; j < inners; ++j) {
                    ties[j] += is_maximum(row[j], m[to + j]) ? 1 : 0;
                  }
                }
                for (std::int64_t j = 0; j < inners; ++j) t[to + j] = static_cast<float>(ties[j]);
              });
  });
}

KernelPointer compile(const MiddleMaximumGradientSpec& spec, const Context& context) {
  return make_kernel([=, threads = context.threads](void* const* operands) {
    const float* x = at(operands, 0);
    const float* m = at(operands, 1);
    const float* t = at(operands, 2);
    const float* dy = at(operands, 3);
    float* dx = at(operands, 4);
    for_tiles(threads, spec.outer, spec.middle, spec.inner, 8,
              [=](std::int64_t inners, std::int64_t from, std::int64_t to) {
                float shares[tile];
                for (std::int64_t j = 0; j < inners; ++j) shares[j] = dy[to + j] / t[to + j];
                for (std::int64_t i = 0; i < spec.middle; ++i) {
                  const std::int64_t row = from + i * spec.inner;
#pragma omp simd
                  for (std::int64_t j = 0; j < inners; ++j) {
                    dx[row + j] = is_maximum(x[row + j], m[to + j]) ? shares[j] : 0.0f;
                  }
                }
              });
  });
}

}  // namespace

void add_middle(Kernels& kernels) {
  kernels.add<MiddleSumSpec, MiddleBroadcastSpec, MiddleMaximumSpec, MiddleTiesSpec,
              MiddleMaximumGradientSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cpu

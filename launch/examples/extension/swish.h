// Swish's kernels for GPUs, which swish.cu has where CUDA is found.
#pragma once

#include <cstdint>

namespace mine {

/// Where a kernel is started, as CUDA has it: a cudaStream_t, and so many multiprocessors.
struct GpuStream {
  void* stream;
  int processors;
};

/// Null, or what went wrong.
///
/// y = x * sigmoid(beta * x), in (rows, columns).
const char* launch_swish(GpuStream on, std::int64_t rows, std::int64_t columns, const float* x,
                         const float* beta, float* y);
/// dx, and terms of the gradient of beta.
const char* launch_swish_gradient(GpuStream on, std::int64_t rows, std::int64_t columns,
                                  const float* x, const float* beta, const float* dy, float* dx,
                                  float* terms);

}  // namespace mine

// Swish's kernels for GPUs. A thread takes every so-many-th element, so neighbouring threads touch
// neighbouring elements; what bounds them is the memory.
#include "swish.h"

namespace mine {

namespace {

constexpr int threads = 256;  // of a block

/// body(column, i) for each element.
template <class Body>
__global__ void for_elements(std::int64_t count, std::int64_t columns, Body body) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x; i < count;
       i += stride) {
    body(i % columns, i);
  }
}

template <class Body>
const char* launch(GpuStream on, std::int64_t rows, std::int64_t columns, const Body& body) {
  constexpr int blocks_a_processor = 8;
  if (rows * columns == 0) return nullptr;
  for_elements<<<on.processors * blocks_a_processor, threads, 0,
                 static_cast<cudaStream_t>(on.stream)>>>(rows * columns, columns, body);
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

__device__ float sigmoid(float x) {
  return 1 / (1 + expf(-x));
}

struct Swish {
  const float *x, *beta;
  float* y;
  __device__ void operator()(std::int64_t column, std::int64_t i) const {
    y[i] = x[i] * sigmoid(beta[column] * x[i]);
  }
};
struct SwishGradient {
  const float *x, *beta, *dy;
  float *dx, *terms;
  __device__ void operator()(std::int64_t column, std::int64_t i) const {
    const float s = sigmoid(beta[column] * x[i]);
    const float slope = x[i] * s * (1 - s);
    dx[i] = dy[i] * (s + beta[column] * slope);
    terms[i] = dy[i] * x[i] * slope;
  }
};

}  // namespace

const char* launch_swish(GpuStream on, std::int64_t rows, std::int64_t columns, const float* x,
                         const float* beta, float* y) {
  return launch(on, rows, columns, Swish{x, beta, y});
}

const char* launch_swish_gradient(GpuStream on, std::int64_t rows, std::int64_t columns,
                                  const float* x, const float* beta, const float* dy, float* dx,
                                  float* terms) {
  return launch(on, rows, columns, SwishGradient{x, beta, dy, dx, terms});
}

}  // namespace mine

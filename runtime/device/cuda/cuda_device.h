// The CUDA device: one GPU, on which one rank computes.
//
// Kernels and the library calls of cuBLASLt and cuDNN are put into one stream and run there in
// order; beside it are two for copies (queues.h). `Kernel::run` returns when its work is queued,
// not when it is done, and the host never waits except in `allocate`, `copy_in`, `copy_out` and
// `synchronize`, and for marks. Nothing is queued to the default stream. What a step has between
// two collectives is captured into a CUDA graph. The thread that made the device is the one that
// uses it.
//
// Two kinds of kernels. Matrix products are cuBLASLt's (matmul.cpp), convolutions cuDNN's where it
// has a deterministic algorithm in plain float32 (convolution.cpp). All others are our own, and
// made of four forms of loop only (launch.h): over elements, over elements with a value that each
// block prepares, over rows that are reduced, over columns that are reduced. A kernel states what
// one element, row or column does, in functions that compile for host and device alike. The tests
// run exactly these, launched by loops on the host (tests/support/cuda_on_host), against the
// references in double that the CPU's kernels are tested against; what is left to a GPU is the four
// launches.
//
// Every result is the same bits for the same inputs, on the same model of GPU and, of products, at
// addresses that are multiples of 16 or are not as before: reductions run in an
// order that follows from the shape alone, sums for the batch are formed in double in two passes,
// gradients gather where others scatter, and nothing is added atomically. Of the libraries'
// algorithms only deterministic ones are taken, the first that their heuristics name: ranks with
// the same GPU and the same libraries take the same, without asking each other.
//
// Numbers are float32, TF32 off unless a product is asked for in it; products in bfloat16 add up in
// float32 (matmul.cpp, convolution.cpp). Memory is plain `cudaMalloc`, aligned to 256 bytes.
#pragma once

#include <memory>
#include <string>

#include "runtime/device/device.h"

namespace meshwork::cuda {

/// What the library libmeshwork_cuda.so exports (library.h).
struct CudaDeviceLibrary {
  std::string (*why_unavailable)();
  std::unique_ptr<Device> (*make)(const DeviceOptions& options);
};

}  // namespace meshwork::cuda

extern "C" const meshwork::cuda::CudaDeviceLibrary meshwork_cuda_device;

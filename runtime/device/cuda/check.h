// The check of every return code of CUDA's runtime, cuBLASLt and cuDNN.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <source_location>
#include <string>
#include <string_view>

namespace meshwork::cuda {

/// Throws `Error` naming `call`, CUDA's own name and words for the failure, and the caller, unless
/// `code` is cudaSuccess. `context` is put behind it: what was running, say.
void check_cuda(cudaError_t code, std::string_view call, std::string_view context = "",
                std::source_location where = std::source_location::current());

/// The same for cuBLASLt and cuDNN; `kernel` is the description of what was made or run.
void check_cublas(cublasStatus_t code, std::string_view call, std::string_view kernel,
                  std::source_location where = std::source_location::current());
void check_cudnn(cudnnStatus_t code, std::string_view call, std::string_view kernel,
                 std::source_location where = std::source_location::current());

/// "; started last: matmul 64x256x784", or nothing if nothing was started.
struct Activity;
[[nodiscard]] std::string started_last(const Activity& activity);

}  // namespace meshwork::cuda

// Owners of what CUDA and its libraries hand out: movable, not to be copied, freed by their
// destructors, which do not throw.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <utility>

namespace meshwork::cuda {

/// A handle that `destroy` frees.
template <class Handle, auto destroy>
class Owned {
 public:
  Owned() = default;
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    // What goes wrong here was wrong before, and has been said.
    if (handle_ != nullptr) static_cast<void>(destroy(handle_));
  }
  [[nodiscard]] Handle native() const { return handle_; }
  /// Where a creating function puts its handle. Only for an empty owner.
  [[nodiscard]] Handle* out() { return &handle_; }

 private:
  Handle handle_ = nullptr;
};

using Stream = Owned<cudaStream_t, cudaStreamDestroy>;
using LtHandle = Owned<cublasLtHandle_t, cublasLtDestroy>;
using LtOperation = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using LtLayout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using LtPreference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;
using DnnHandle = Owned<cudnnHandle_t, cudnnDestroy>;
using DnnTensor = Owned<cudnnTensorDescriptor_t, cudnnDestroyTensorDescriptor>;
using DnnFilter = Owned<cudnnFilterDescriptor_t, cudnnDestroyFilterDescriptor>;
using DnnConvolution = Owned<cudnnConvolutionDescriptor_t, cudnnDestroyConvolutionDescriptor>;

}  // namespace meshwork::cuda

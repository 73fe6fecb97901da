// The handles of cuBLASLt and cuDNN that kernels of one device share.
#pragma once

#include "runtime/device/cuda/check.h"
#include "runtime/device/cuda/owned.h"

namespace meshwork::cuda {

struct Libraries {
  LtHandle lt;
  cudaStream_t stream = nullptr;

  /// cuDNN's handle, on `stream`. It costs some hundred megabytes and a second: it is made for the
  /// first convolution.
  [[nodiscard]] cudnnHandle_t dnn() const {
    if (dnn_.native() == nullptr) {
      check_cudnn(cudnnCreate(dnn_.out()), "cudnnCreate", "convolutions");
      check_cudnn(cudnnSetStream(dnn_.native(), stream), "cudnnSetStream", "convolutions");
    }
    return dnn_.native();
  }

 private:
  mutable DnnHandle dnn_;
};

}  // namespace meshwork::cuda

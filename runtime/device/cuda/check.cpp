#include "runtime/device/cuda/check.h"

#include "collectives/error.h"
#include "runtime/device/cuda/kernels.h"

namespace meshwork::cuda {

namespace {

/// "matmul.cpp:80" of a path.
std::string place_of(const std::source_location& where) {
  std::string_view file = where.file_name();
  file.remove_prefix(file.find_last_of('/') + 1);  // npos + 1 is 0
  return fmt::format("{}:{}", file, where.line());
}

}  // namespace

void check_cuda(cudaError_t code, std::string_view call, std::string_view context,
                std::source_location where) {
  if (code == cudaSuccess) return;
  fail("{} failed: {} ({}), at {}{}", call, cudaGetErrorString(code), cudaGetErrorName(code),
       place_of(where), context);
}

void check_cublas(cublasStatus_t code, std::string_view call, std::string_view kernel,
                  std::source_location where) {
  if (code == CUBLAS_STATUS_SUCCESS) return;
  fail("{}: {} failed: {} ({}), at {}", kernel, call, cublasLtGetStatusString(code),
       cublasLtGetStatusName(code), place_of(where));
}

void check_cudnn(cudnnStatus_t code, std::string_view call, std::string_view kernel,
                 std::source_location where) {
  if (code == CUDNN_STATUS_SUCCESS) return;
  fail("{}: {} failed: {}, at {}", kernel, call, cudnnGetErrorString(code), place_of(where));
}

std::string started_last(const Activity& activity) {
  return activity.last ? fmt::format("; started last: {}", *activity.last) : std::string();
}

void check_launch(const Launcher& launcher, std::source_location where) {
  launcher.activity->last = launcher.name;
  const cudaError_t code = cudaGetLastError();  // which also forgets it
  if (code != cudaSuccess) check_cuda(code, "the start of " + *launcher.name, "", where);
}

void refuse(const std::string& kernel, const std::string& reason) {
  fail("{}: {}", kernel, reason);
}

}  // namespace meshwork::cuda

// Functions that kernels of every device share: compiled for the host always, and for the GPU where
// the compiler of CUDA reads them.
#pragma once

#ifdef __CUDACC__
#define MESHWORK_HOST_DEVICE __host__ __device__
#else
#define MESHWORK_HOST_DEVICE
#endif

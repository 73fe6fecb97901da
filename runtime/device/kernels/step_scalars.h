// What changes from step to step, for kernels.
#pragma once

#include <cstdint>

namespace meshwork {

/// Values that change from step to step, in device memory at a fixed address. Kernels that need
/// them take a pointer to one as an operand.
struct StepScalars {
  std::int64_t step = 0;      // optimizer iterations done before this step
  float learning_rate = 0;    // of this step
  std::int64_t position = 0;  // of a piece of sequences (pieces.h): its first
};

}  // namespace meshwork

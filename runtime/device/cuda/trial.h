// Trials: kernels of libraries, run once before they are taken.
//
// A library may name an algorithm and then refuse to run it, or run it and do what its
// documentation leaves open. Only the GPU tells. So an algorithm is run once on memory of its own.
// One that fails is no candidate; the next one is taken, and last of all a kernel of our own
// (trials.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/trials.h"

namespace meshwork::cuda {

/// Memory of an operand, which begins `offset` bytes behind a multiple of 256.
struct TrialOperand {
  std::int64_t bytes = 0, offset = 0;
};

/// Operands of a kernel, all bits 0 at first. Throws `NoTrialMemory` where there is none for them.
class Trial {
 public:
  Trial(std::span<const TrialOperand> operands, const Context& context);

  /// Sets every byte of an operand.
  void fill(int operand, int byte);
  template <class T>
  void write(int operand, const std::vector<T>& values) {
    context_->device->copy_in(operands_[index(operand)], values.data(), bytes_of(values));
  }
  template <class T>
  [[nodiscard]] std::vector<T> read(int operand, std::int64_t from, std::int64_t count) {
    std::vector<T> values(static_cast<std::size_t>(count));
    context_->device->copy_out(values.data(), static_cast<T*>(operands_[index(operand)]) + from,
                               bytes_of(values));
    return values;
  }
  /// Adds the workspace, if the kernel wants one. Before it is run.
  void prepare(const Kernel& kernel);
  void run(Kernel& kernel);

 private:
  static std::size_t index(int operand) { return static_cast<std::size_t>(operand); }
  template <class T>
  static std::int64_t bytes_of(const std::vector<T>& values) {
    return static_cast<std::int64_t>(values.size() * sizeof(T));
  }
  void add(const TrialOperand& operand);

  const Context* context_;
  std::vector<Memory> memories_;
  std::vector<void*> operands_;
};

/// Why a trial refuses its kernel; empty if it does not. `try_it` throws `Error` or says.
[[nodiscard]] std::string refusal(const std::function<std::string()>& try_it);

/// The same for a kernel that only has to run.
[[nodiscard]] std::string refusal_to_run(Kernel& kernel, std::span<const TrialOperand> operands,
                                         const Context& context);

}  // namespace meshwork::cuda

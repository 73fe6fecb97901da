#include "runtime/device/cuda/trial.h"

#include <cuda_runtime_api.h>

#include "collectives/error.h"
#include "runtime/device/cuda/check.h"
#include "runtime/device/cuda/libraries.h"

namespace meshwork::cuda {

Trial::Trial(std::span<const TrialOperand> operands, const Context& context) : context_(&context) {
  for (const TrialOperand& operand : operands) add(operand);
}

void Trial::fill(int operand, int byte) {
  const Memory& memory = memories_[index(operand)];
  const std::byte* end = static_cast<const std::byte*>(memory.data()) + memory.bytes();
  std::byte* begin = static_cast<std::byte*>(operands_[index(operand)]);
  check_cuda(cudaMemsetAsync(begin, byte, static_cast<std::size_t>(end - begin),
                             context_->libraries->stream),
             "cudaMemsetAsync");
}

void Trial::prepare(const Kernel& kernel) {
  if (kernel.workspace_bytes() > 0) add({kernel.workspace_bytes()});
}

void Trial::run(Kernel& kernel) {
  kernel.run(operands_.data());
}

void Trial::add(const TrialOperand& operand) {
  try {
    memories_.push_back(context_->device->allocate(operand.offset + operand.bytes));
  } catch (const Error& error) {
    throw NoTrialMemory(error.what());
  }
  operands_.push_back(static_cast<std::byte*>(memories_.back().data()) + operand.offset);
}

std::string refusal(const std::function<std::string()>& try_it) {
  try {
    return try_it();
  } catch (const NoTrialMemory&) {
    throw;
  } catch (const Error& error) {
    static_cast<void>(cudaGetLastError());  // it has been answered
    return error.what();
  }
}

std::string refusal_to_run(Kernel& kernel, std::span<const TrialOperand> operands,
                           const Context& context) {
  return refusal([&] {
    Trial trial(operands, context);
    trial.prepare(kernel);
    trial.run(kernel);
    context.device->synchronize();
    return std::string();
  });
}

}  // namespace meshwork::cuda

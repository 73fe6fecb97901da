#include "runtime/device/cuda/trial.h"

#include <cuda_runtime_api.h>

#include <optional>

#include "collectives/error.h"
#include "runtime/device/cuda/check.h"
#include "runtime/device/cuda/libraries.h"

namespace meshwork::cuda {

Trial::Trial(std::span<const std::int64_t> operand_bytes, const Context& context)
    : context_(&context) {
  for (const std::int64_t bytes : operand_bytes) add(bytes);
}

void Trial::fill(int operand, int byte) {
  check_cuda(cudaMemsetAsync(operands_[index(operand)], byte,
                             static_cast<std::size_t>(memories_[index(operand)].bytes()),
                             context_->libraries->stream),
             "cudaMemsetAsync");
}

void Trial::prepare(const Kernel& kernel) {
  if (kernel.workspace_bytes() > 0) add(kernel.workspace_bytes());
}

void Trial::run(Kernel& kernel) {
  kernel.run(operands_.data());
}

void Trial::add(std::int64_t bytes) {
  memories_.push_back(context_->device->allocate(bytes));
  operands_.push_back(memories_.back().data());
}

std::string refusal(const std::function<std::string()>& try_it) {
  try {
    return try_it();
  } catch (const Error& error) {
    static_cast<void>(cudaGetLastError());  // it has been answered
    return error.what();
  }
}

std::string refusal_to_run(Kernel& kernel, std::span<const std::int64_t> operand_bytes,
                           const Context& context) {
  std::optional<Trial> trial;
  try {
    trial.emplace(operand_bytes, context);
    trial->prepare(kernel);
  } catch (const Error&) {
    return {};
  }
  return refusal([&] {
    trial->run(kernel);
    context.device->synchronize();
    return std::string();
  });
}

bool Trials::stands(const std::string& name, std::string_view candidate, std::string_view key,
                    const std::function<std::string()>& try_it) {
  const auto [verdict, is_new] = verdicts_.try_emplace(fmt::format("{}\n{}", name, key), true);
  if (!is_new) return verdict->second;
  const std::string reason = try_it();
  verdict->second = reason.empty();
  if (!reason.empty() && refused_++ == 0) {
    first_ = fmt::format("\"{}\" for {}: {}", candidate, name, reason);
  }
  return reason.empty();
}

void Trials::note_last_resort(const std::string& name, std::string_view taken) {
  last_resorts_[name] = taken;
}

std::string Trials::remark() const {
  std::string text;
  if (!last_resorts_.empty()) {
    const auto& [name, taken] = *last_resorts_.begin();
    text = fmt::format(
        "warning: the GPU's libraries have no kernel for {} of the specifications, such as {}; {} "
        "is taken there",
        last_resorts_.size(), name, taken);
  }
  if (refused_ > 0) {
    text += fmt::format(
        "{}kernels: {} of the GPU's libraries did not stand their trial and are "
        "not taken; the first is {}",
        text.empty() ? "" : "\n", refused_, first_);
  }
  return text;
}

}  // namespace meshwork::cuda

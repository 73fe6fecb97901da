#include "runtime/device/cuda/gpu_choice.h"

#include <fmt/format.h>

#include <cstdint>

namespace meshwork::cuda {

int choose_gpu(int visible, int ranks_on_node, int rank_on_node) {
  if (ranks_on_node <= visible) return rank_on_node;
  return static_cast<int>(static_cast<std::int64_t>(rank_on_node) * visible / ranks_on_node);
}

bool sleeps_while_waiting(int own_cores, int cores_of_machine, int ranks_on_node) {
  const bool is_bound = own_cores < cores_of_machine;
  return (is_bound ? own_cores : own_cores / ranks_on_node) < 3;
}

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string why_none(const Visibility& visibility, const char* shown) {
  switch (visibility.state) {
    case Visibility::State::no_driver:
      return "no NVIDIA driver is installed on this machine";
    case Visibility::State::old_driver:
      return fmt::format(
          "the NVIDIA driver supports CUDA {} at most and this build needs {}; a newer driver, or "
          "a build with an older toolkit, is needed",
          version_text(visibility.driver), version_text(visibility.runtime));
    case Visibility::State::broken:
      return fmt::format("CUDA cannot use the GPUs of this machine: {}", visibility.problem);
    case Visibility::State::none:
    case Visibility::State::visible:
      break;
  }
  if (shown != nullptr) {
    return fmt::format("no GPU is visible (CUDA_VISIBLE_DEVICES is \"{}\")", shown);
  }
  return "no GPU is visible";
}

}  // namespace meshwork::cuda

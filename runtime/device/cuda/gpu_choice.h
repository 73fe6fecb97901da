// Which GPU a rank takes, and what to say where there is none: as functions of numbers.
//
// CUDA shows a process the GPUs that CUDA_VISIBLE_DEVICES names, all if it is not set; Slurm sets
// it where it binds ranks to GPUs. Among those shown, the ranks of a node take one each, in order.
// Where there are more ranks than GPUs, neighbouring ranks share one: allowed, for tests, and said
// in the description of the device. Ranks find out together whether they do (node_device.h).
#pragma once

#include <string>

namespace meshwork::cuda {

/// By CUDA's count of those it shows, `visible` > 0 of them.
[[nodiscard]] int choose_gpu(int visible, int ranks_on_node, int rank_on_node);

/// Whether a thread that waits for the GPU sleeps, which takes some microseconds longer than looking
/// again and again: where a rank has fewer than three cores, for itself, the thread that reads
/// samples and NCCL's. The process may run on `own_cores` of the machine's; all of them are shared
/// by the ranks on the node.
[[nodiscard]] bool sleeps_while_waiting(int own_cores, int cores_of_machine, int ranks_on_node);

/// "13.0" of CUDA's 13000.
[[nodiscard]] std::string version_text(int version);

/// What CUDA says about GPUs before any is used.
struct Visibility {
  enum class State { visible, no_driver, old_driver, broken, none };
  State state = State::none;
  int count = 0;
  int driver = 0, runtime = 0;  // versions of CUDA: that the driver has, that this build needs
  std::string problem;          // broken: CUDA's own words
};

/// Why there is no GPU, and what can be done about it. `shown` is the value of
/// CUDA_VISIBLE_DEVICES, null if it is not set.
[[nodiscard]] std::string why_none(const Visibility& visibility, const char* shown);

}  // namespace meshwork::cuda

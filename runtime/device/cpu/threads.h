// The threads that a rank computes with: how many, and in which floating-point mode.
#pragma once

namespace meshwork::cpu {

/// What OMP_NUM_THREADS asks for (`threads_asked_for`); else this rank's share of the cores that
/// the job has on the node, but no more than the rank is bound to, and at least 1.
[[nodiscard]] int threads_for(int ranks_on_node);

/// Gives the calling thread a team of `threads`, itself among them, and makes all of them flush
/// denormal numbers to zero, in results and operands: Adam's second moments and the gradients of
/// dead units decay into them, and arithmetic with them is a hundred times slower.
void prepare_threads(int threads);

/// Calls part(i) for i from 0 to `team` - 1, each on a thread of the team.
void run_team(int team, void (*part)(const void* body, int i), const void* body);
template <class Part>
void run_team(int team, const Part& part) {
  run_team(
      team, [](const void* body, int i) { (*static_cast<const Part*>(body))(i); }, &part);
}

}  // namespace meshwork::cpu

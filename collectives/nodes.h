// Which ranks of a job are on one node.
//
// Asked once, by all ranks together; from then on every rank knows it of all. A node is the ranks
// that can share memory. To try on one machine what happens on several, the environment variable
// MESHWORK_RANKS_A_NODE lets so many ranks of the job, in their order, count as a node.
#pragma once

#include <memory>
#include <vector>

#include "collectives/communicator.h"

namespace meshwork {

/// The numbers in `whole` of the ranks of `communicator`, which are part of it. Not collective.
[[nodiscard]] std::vector<int> ranks_in(const Communicator& whole,
                                        const Communicator& communicator);
/// The numbers in the job of the ranks of `communicator`. Not collective.
[[nodiscard]] std::vector<int> job_ranks_of(const Communicator& communicator);

/// The ranks of `ranks` that share the calling rank's memory, imitated nodes aside. Kept with
/// `ranks`, but where a job is hosted, whose communicators may have to be left. Every rank of
/// `ranks` calls it.
[[nodiscard]] std::shared_ptr<const Communicator> physical_node_of(const Communicator& ranks);

/// How many threads OMP_NUM_THREADS asks for, where it begins with a whole positive number (of a
/// list the first counts); 0: it asks for nothing. Throws `EnvironmentError` for more than
/// `most_threads_a_processor` for each processor of the machine: they cannot all be started.
[[nodiscard]] int threads_asked_for();
inline constexpr int most_threads_a_processor = 16;

class Nodes {
 public:
  /// Every rank of `ranks` calls it. `ranks_a_node` is for tests, in place of the environment
  /// variable. Throws if that is no positive number.
  explicit Nodes(const Communicator& ranks, int ranks_a_node = 0);

  /// How many consecutive ranks of `communicator`, which is part of those above, are on each node,
  /// if they are equally many on all; 0 if they are not, or if a node has ranks of it here and
  /// there. Not collective.
  [[nodiscard]] int ranks_each(const Communicator& communicator) const;

  /// The most ranks of `communicator` that are on one node. Not collective.
  [[nodiscard]] int most_together(const Communicator& communicator) const;

  /// The ranks of `communicator` on the calling rank's node. Collective.
  [[nodiscard]] Communicator split(const Communicator& communicator) const;

  /// Whether each rank of the calling rank's node has a core left beside those that it computes
  /// with. That is known only where OMP_NUM_THREADS says how many these are.
  [[nodiscard]] bool has_spare_core() const { return has_spare_core_; }
  /// Whether the calling rank takes turns with others of its node on its cores: they are fewer.
  [[nodiscard]] bool is_crowded() const { return is_crowded_; }

 private:
  [[nodiscard]] std::vector<int> nodes_of(const Communicator& communicator) const;
  std::vector<int> by_job_rank_;  // the node's number; -1 for ranks that were not asked
  bool has_spare_core_ = false;
  bool is_crowded_ = false;
};

}  // namespace meshwork

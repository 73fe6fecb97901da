#include "collectives/nodes.h"

#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <ranges>
#include <set>
#include <string_view>

#include "collectives/error.h"
#include "collectives/hosted.h"

namespace meshwork {

namespace {

class MpiGroup {
 public:
  explicit MpiGroup(MPI_Comm communicator) {
    check_mpi(MPI_Comm_group(communicator, &native), "MPI_Comm_group");
  }
  ~MpiGroup() {
    if (MPI_Group_free(&native) != MPI_SUCCESS) abort_or_break("MPI_Group_free failed");
  }
  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;

  MPI_Group native = MPI_GROUP_NULL;
};

int imitated_ranks_a_node() {
  const char* const text = std::getenv("MESHWORK_RANKS_A_NODE");
  if (text == nullptr || *text == '\0') return 0;
  char* end = nullptr;
  const long ranks = std::strtol(text, &end, 10);
  if (*end != '\0' || ranks < 1 || ranks > std::numeric_limits<int>::max()) {
    throw EnvironmentError(fmt::format(
        "MESHWORK_RANKS_A_NODE is \"{}\" in the environment; it says how many ranks count as one "
        "node, at least 1",
        text));
  }
  return static_cast<int>(ranks);
}

/// The cores that a rank may run on, with all others that may run on one of them.
struct Cores {
  int count = 0;
  int ranks = 0;
};

/// Every rank of `node` calls it.
Cores cores_of(const Communicator& node) {
  cpu_set_t own;
  CPU_ZERO(&own);
  // It fails on a node of more than 1024 cores: nothing is known of them then.
  if (::sched_getaffinity(0, sizeof own, &own) != 0) CPU_ZERO(&own);
  std::vector<cpu_set_t> bound(static_cast<std::size_t>(node.size()));
  await_ranks(node);
  check_mpi(
      MPI_Allgather(&own, sizeof own, MPI_BYTE, bound.data(), sizeof own, MPI_BYTE, node.native()),
      "MPI_Allgather");
  cpu_set_t all = own;
  int ranks = 0;
  for (const cpu_set_t& other : bound) {
    cpu_set_t both;
    CPU_AND(&both, &other, &own);
    if (CPU_COUNT(&both) == 0) continue;
    ++ranks;
    CPU_OR(&all, &all, &other);
  }
  return {CPU_COUNT(&all), ranks};
}

}  // namespace

std::vector<int> ranks_in(const Communicator& whole, const Communicator& communicator) {
  const MpiGroup here(communicator.native());
  const MpiGroup all(whole.native());
  std::vector<int> ranks(static_cast<std::size_t>(communicator.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<int> numbers(ranks.size());
  check_mpi(MPI_Group_translate_ranks(here.native, communicator.size(), ranks.data(), all.native,
                                      numbers.data()),
            "MPI_Group_translate_ranks");
  return numbers;
}

std::vector<int> job_ranks_of(const Communicator& communicator) {
  return ranks_in(Communicator::world(), communicator);
}

std::shared_ptr<const Communicator> physical_node_of(const Communicator& ranks) {
  using Node = std::shared_ptr<const Communicator>;
  static const auto key = std::make_shared<const int>(0);  // whose attachment it is
  if (void* const kept = ranks.attachment(key.get())) return *static_cast<Node*>(kept);
  const auto node = std::make_shared<Node>(std::make_shared<Communicator>(ranks.split_by_node()));
  if (Hosted::current() == nullptr) ranks.attach(key, node);
  return *node;
}

int threads_asked_for() {
  const char* const variable = std::getenv("OMP_NUM_THREADS");
  std::string_view text = variable == nullptr ? "" : variable;
  text = text.substr(0, text.find(','));
  constexpr std::string_view spaces = " \t";
  text.remove_prefix(std::min(text.find_first_not_of(spaces), text.size()));
  text = text.substr(0, text.find_last_not_of(spaces) + 1);
  int threads = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), threads);
  const bool beyond = error == std::errc::result_out_of_range && text.front() != '-';
  if (end != text.data() + text.size() || (error != std::errc() && !beyond)) return 0;
  const long processors = std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN));
  if (beyond || threads > processors * most_threads_a_processor) {
    throw EnvironmentError(fmt::format(
        "OMP_NUM_THREADS is \"{}\" in the environment; this machine has {} processor{}, on which a "
        "rank takes {} threads at most",
        variable, processors, processors == 1 ? "" : "s", processors * most_threads_a_processor));
  }
  return std::max(0, threads);
}

Nodes::Nodes(const Communicator& ranks, int ranks_a_node) {
  const std::vector<int> job_ranks = job_ranks_of(ranks);
  const int own = job_ranks[static_cast<std::size_t>(ranks.rank())];
  if (ranks_a_node == 0) ranks_a_node = imitated_ranks_a_node();
  // A node is called by the first of its ranks.
  const std::shared_ptr<const Communicator> physical = physical_node_of(ranks);
  const Cores cores = cores_of(*physical);
  const int threads = threads_asked_for();
  has_spare_core_ = threads > 0 && cores.ranks > 0 && cores.count >= cores.ranks * (threads + 1);
  is_crowded_ = cores.count < cores.ranks;
  const int node = ranks_a_node > 0 ? own / ranks_a_node : job_ranks_of(*physical).front();
  std::vector<int> nodes(job_ranks.size());
  await_ranks(ranks);
  check_mpi(MPI_Allgather(&node, 1, MPI_INT, nodes.data(), 1, MPI_INT, ranks.native()),
            "MPI_Allgather");
  by_job_rank_.resize(static_cast<std::size_t>(*std::ranges::max_element(job_ranks)) + 1, -1);
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
    by_job_rank_[static_cast<std::size_t>(job_ranks[rank])] = nodes[rank];
  }
}

std::vector<int> Nodes::nodes_of(const Communicator& communicator) const {
  std::vector<int> nodes = job_ranks_of(communicator);
  for (int& rank : nodes) {
    const auto at = static_cast<std::size_t>(rank);
    if (at >= by_job_rank_.size() || by_job_rank_[at] < 0) {
      internal_error(fmt::format("rank {} of the job is not among those of the transport", rank));
    }
    rank = by_job_rank_[at];
  }
  return nodes;
}

int Nodes::ranks_each(const Communicator& communicator) const {
  const std::vector<int> nodes = nodes_of(communicator);
  std::set<int> seen;
  int each = 0;
  for (auto begin = nodes.begin(); begin != nodes.end();) {
    const auto end = std::find_if(begin, nodes.end(), [&](int node) { return node != *begin; });
    const int here = static_cast<int>(end - begin);
    if (!seen.insert(*begin).second || (each != 0 && here != each)) return 0;
    each = here;
    begin = end;
  }
  return each;
}

int Nodes::most_together(const Communicator& communicator) const {
  std::map<int, int> counts;
  for (const int node : nodes_of(communicator)) ++counts[node];
  return std::ranges::max(counts | std::views::values);
}

Communicator Nodes::split(const Communicator& communicator) const {
  const int node = nodes_of(communicator)[static_cast<std::size_t>(communicator.rank())];
  return communicator.split(node, communicator.rank());
}

}  // namespace meshwork

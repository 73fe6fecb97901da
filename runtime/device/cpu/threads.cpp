#include "runtime/device/cpu/threads.h"

#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

#include "collectives/nodes.h"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace meshwork::cpu {

namespace {

/// How many numbers a list like "0-3,8,10-11" has; 0 if it is none.
int count_of_list(std::string_view list) {
  int count = 0;
  while (!list.empty()) {
    const std::string_view piece = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), piece.size() + 1));
    int first = 0, last = 0;
    const char* end = piece.data() + piece.size();
    auto [next, error] = std::from_chars(piece.data(), end, first);
    if (error != std::errc()) return 0;
    last = first;
    if (next != end) {
      if (*next != '-' || std::from_chars(next + 1, end, last).ec != std::errc()) return 0;
    }
    count += last - first + 1;
  }
  return count;
}

/// The cores of this process's control group, which is what a batch system or a container grants to
/// all ranks on the node together; 0 if there is none that says.
int cores_of_control_group() {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::")) continue;
    std::ifstream file("/sys/fs/cgroup" + line.substr(3) + "/cpuset.cpus.effective");
    std::string list;
    if (file >> list) return count_of_list(list);
  }
  return 0;
}

/// The cores that this process may run on.
int cores_bound() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  // A node of more than 1024 cores.
  return static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
}

void flush_denormals() {
#if defined(__SSE__)
  constexpr unsigned flush_results = 0x8000, flush_operands = 0x0040;
  _mm_setcsr(_mm_getcsr() | flush_results | flush_operands);
#elif defined(__aarch64__)
  std::uint64_t control = 0;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  asm volatile("msr fpcr, %0" : : "r"(control | (std::uint64_t{1} << 24)));
#endif
}

}  // namespace

int threads_for(int ranks_on_node) {
  // Not what OpenMP has made of the variable: of text that is no number, a thread for each core.
  if (const int asked = threads_asked_for(); asked > 0) {
    return std::min(asked, omp_get_thread_limit());
  }
  const int bound = cores_bound();
  int granted = cores_of_control_group();
  if (granted == 0) granted = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  return std::clamp(granted / ranks_on_node, 1, bound);
}

void prepare_threads(int threads) {
  omp_set_num_threads(threads);
  flush_denormals();
#pragma omp parallel num_threads(threads)
  flush_denormals();
}

void run_team(int team, void (*part)(const void*, int), const void* body) {
#pragma omp parallel for num_threads(team) schedule(static, 1)
  for (int i = 0; i < team; ++i) part(body, i);
}

}  // namespace meshwork::cpu

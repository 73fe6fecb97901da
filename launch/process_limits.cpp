#include "launch/process_limits.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "collectives/error.h"
#include "collectives/nodes.h"
#include "runtime/device/cpu/threads.h"

namespace meshwork {
namespace {

// Measured on x86-64 with Open MPI 4.1, oneDNN 2.6 and HDF5 1.10: a run that writes checkpoints has
// 182 MB before it makes its buffers, and needs 8.4 MB more for each thread, of which 8 MiB are its
// stack. The rest is what stays free for the libraries (runtime/device/cpu/memory.cpp).
constexpr std::int64_t bytes_to_begin_with = std::int64_t{264} << 20;
constexpr std::int64_t bytes_of_thread = std::int64_t{1} << 20;

std::int64_t bytes_of_stack() {
  std::size_t bytes = std::size_t{8} << 20;
  pthread_attr_t usual;
  if (pthread_getattr_default_np(&usual) == 0) {
    static_cast<void>(pthread_attr_getstacksize(&usual, &bytes));
    static_cast<void>(pthread_attr_destroy(&usual));
  }
  return static_cast<std::int64_t>(bytes);
}

// Measured with Open MPI 4.1: MPI begins with 12 files, a run that writes checkpoints succeeds with 18
// on one rank, and with 32 on two.
constexpr rlim_t files_to_begin_with = 32;

int threads_of_rank(int ranks_on_node) {
  try {
    return ranks_on_node > 0 ? cpu::threads_for(ranks_on_node) : std::max(1, threads_asked_for());
  } catch (const Error&) {  // of OMP_NUM_THREADS, which the run will say
    return 1;
  }
}

double mebibytes(std::int64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

std::string flaw_of_open_files() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= files_to_begin_with) return "";
  return fmt::format(
      "this process may have {} open files (ulimit -n, RLIMIT_NOFILE), and needs {} to begin with; "
      "raise the limit",
      limit.rlim_cur, files_to_begin_with);
}

// Threads have stacks as large as that of the process may be. Measured: a run of one rank succeeds with
// 64 KiB; kernels of oneDNN and what MPI calls take more on their way.
constexpr rlim_t bytes_of_stack_to_begin_with = rlim_t{256} << 10;

std::string flaw_of_stack() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= bytes_of_stack_to_begin_with) {
    return "";
  }
  return fmt::format(
      "this process may have {} KiB of stack (ulimit -s, RLIMIT_STACK), and needs {} KiB to begin "
      "with; raise the limit",
      limit.rlim_cur >> 10, bytes_of_stack_to_begin_with >> 10);
}

std::string flaw_of_address_space(int ranks_on_node) {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return "";
  }
  (void)::mallopt(M_ARENA_MAX, 1);
  const int threads = threads_of_rank(ranks_on_node);
  const std::int64_t needed = bytes_to_begin_with + threads * (bytes_of_stack() + bytes_of_thread);
  if (limit.rlim_cur >= static_cast<rlim_t>(needed)) {
    return "";
  }
  return fmt::format(
      "this process may have {:.1f} MiB of addresses (ulimit -v, RLIMIT_AS), and needs {:.1f} MiB "
      "to begin with, on {} thread{}; raise the limit{}",
      mebibytes(static_cast<std::int64_t>(limit.rlim_cur)), mebibytes(needed), threads,
      threads == 1 ? "" : "s", threads == 1 ? "" : ", or ask for fewer with OMP_NUM_THREADS");
}

}  // namespace

std::string flaw_of_limits(int ranks_on_node) {
  for (const std::string& flaw : {flaw_of_stack(), flaw_of_open_files()}) {
    if (!flaw.empty()) return flaw;
  }
  return flaw_of_address_space(ranks_on_node);
}

}  // namespace meshwork

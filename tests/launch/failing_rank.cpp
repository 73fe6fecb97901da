// A program whose ranks fail in the ways that its argument names. How the job ends is what the
// tests look at (CMakeLists.txt here).
#include <mpi.h>

#include <cstdio>
#include <string>

#include "collectives/error.h"
#include "runtime/train/runtime.h"

using namespace meshwork;

int main(int argc, char** argv) {
  Runtime runtime(argc, argv);
  const std::string way = argc > 1 ? argv[1] : "";
  const bool is_last = runtime.rank() == runtime.size() - 1;
  const auto wait_for_all = [] { check_mpi(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier"); };
  if (way == "uncaught") {
    if (is_last) {
      fail("this rank alone has a problem");
    }
    wait_for_all();
  }
  const int status = runtime.attempt(2, [&] {
    if (way == "one" && is_last) {
      fail("this rank alone has a problem");
    }
    if (way == "all") {
      fail("all ranks have this problem");
    }
    if (way == "each") {
      fail("rank {} has a problem of its own", runtime.rank());
    }
    if (way == "other") {
      throw std::runtime_error("a problem that is no Error");
    }
    wait_for_all();
  });
  if (status == 0 && runtime.is_root()) {
    std::printf("no problem\n");
  }
  return status;
}

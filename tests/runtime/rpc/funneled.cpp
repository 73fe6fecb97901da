// Calls in a program that has initialised MPI for one thread alone.
#include <mpi.h>

#include <iostream>

#include "collectives/error.h"
#include "runtime/rpc/rpc.h"

using namespace meshwork;

int main(int argc, char** argv) {
  int level = 0;
  if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS) return 1;
  try {
    Rpc rpc(Communicator::world());
    rpc.define("half", [](double value) { return value / 2; });
    rpc.open();
    double sum = 0;
    for (int rank = 0; rank < rpc.size(); ++rank) sum += rpc.call<double>(rank, "half", 1).get();
    rpc.close();
    if (sum != 0.5 * rpc.size()) fail("the sum is {}", sum);
    if (rpc.rank() == 0) std::cout << (rpc.has_threads() ? "threads" : "no threads") << std::endl;
  } catch (const std::exception& error) {
    abort_job(1, error.what());
  }
  return MPI_Finalize();
}

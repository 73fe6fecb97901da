// The last rank of a job with roles dies when it hears that training has ended. The rank that waits for
// it says so (CMakeLists.txt of the folder above looks for that).
#include <mpi.h>

#include <chrono>
#include <csignal>
#include <iostream>
#include <thread>

#include "collectives/communicator.h"
#include "collectives/error.h"
#include "runtime/train/roles/role.h"

using namespace meshwork;

int main(int argc, char** argv) {
  MpiEnvironment environment(&argc, &argv);
  try {
    // By SIGTERM a launcher ends the others. They put that off.
    std::signal(SIGTERM, SIG_IGN);
    const Communicator world = Communicator::world();
    RoleMap roles;
    roles.add("train", "", 1);
    roles.add("board", "Board", world.size() - 1);
    RpcOptions options;
    for (int rank = 0; rank < world.size(); ++rank) options.titles.push_back(roles.role_of(rank));
    Rpc rpc(world, options);
    if (world.rank() == 0) {
      RolesAtWork at_work(roles, rpc);
      rpc.open();
      at_work.end(0);
      std::cout << "all have ended" << std::endl;
    } else {
      const bool dies = world.rank() == world.size() - 1;
      rpc.define("end of training", [dies] {
        if (dies) std::raise(SIGKILL);
      });
      rpc.open();
      std::this_thread::sleep_for(std::chrono::seconds(30));  // others would notice in `close`
    }
    rpc.close();
  } catch (const std::exception& error) {
    abort_job(1, error.what());
  }
}

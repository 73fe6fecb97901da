#include "collectives/last_words.h"

#include <mpi.h>

#include <array>

#include "collectives/error.h"
#include "tests/support/catch.h"

namespace meshwork::last_words_test {

TEST_CASE("one rank of a node has the last word, once, and all do without such an agreement") {
  const Communicator world = Communicator::world();
  const auto claims = [&] {
    int all = LastWords::claim() ? 1 : 0;
    all += LastWords::claim() ? 1 : 0;
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_SUM, world.native()),
              "MPI_Allreduce");
    return all;
  };
  {
    const LastWords words(world);
    CHECK(LastWords::are_kept());
    CHECK_FALSE(LastWords::are_said());
    check_mpi(MPI_Barrier(world.native()), "MPI_Barrier");
    CHECK(claims() == 1);
    CHECK(LastWords::are_said());
  }
  CHECK_FALSE(LastWords::are_kept());
  CHECK_FALSE(LastWords::are_said());
  CHECK(claims() == 2 * world.size());
}

}  // namespace meshwork::last_words_test

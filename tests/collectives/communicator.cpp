#include "collectives/communicator.h"

#include <utility>

#include "collectives/error.h"
#include "tests/support/catch.h"

namespace meshwork::communicator_test {

TEST_CASE("a split numbers the ranks of each color by their key") {
  const Communicator world = Communicator::world();
  const Communicator half = world.split(world.rank() % 2, -world.rank());
  // Of n ranks those with my parity are ceil(n / 2) or floor(n / 2); the highest comes first.
  const int members = (world.size() + 1 - world.rank() % 2) / 2;
  CHECK(half.size() == members);
  CHECK(half.rank() == members - 1 - world.rank() / 2);
}

TEST_CASE("a moved communicator leaves nothing behind") {
  Communicator first = Communicator::world().duplicate();
  const MPI_Comm native = first.native();
  Communicator second = std::move(first);
  CHECK(second.native() == native);
  CHECK(first.native() == MPI_COMM_NULL);  // NOLINT: that is the claim
  second = Communicator::self();
  CHECK(second.size() == 1);
}

TEST_CASE("ranks on one machine share a node") {
  const Communicator world = Communicator::world();
  const Communicator node = world.split_by_node();
  CHECK(node.size() == world.size());
  CHECK(node.rank() == world.rank());
}

TEST_CASE("an error of MPI is an exception that names the operation and MPI's words") {
  int value = 0;
  const int code = MPI_Bcast(&value, 1, MPI_INT, 1000, Communicator::world().native());
  REQUIRE(code != MPI_SUCCESS);
  CHECK_THROWS_WITH(check_mpi(code, "MPI_Bcast"), Catch::StartsWith("MPI_Bcast failed: ") &&
                                                      Catch::Contains("root") &&
                                                      Catch::Contains("communicator.cpp:"));
  const Communicator split = Communicator::world().split(0, 0);
  CHECK(MPI_Bcast(&value, 1, MPI_INT, 1000, split.native()) != MPI_SUCCESS);
}

TEST_CASE("an internal error says where it happened") {
  CHECK_THROWS_WITH(internal_error("the moon is made of cheese"),
                    Catch::Contains("cheese") && Catch::Contains("communicator.cpp:"));
}

}  // namespace meshwork::communicator_test

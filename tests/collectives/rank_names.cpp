#include "collectives/rank_names.h"

#include "collectives/joint_failure.h"
#include "tests/support/catch.h"

namespace meshwork::rank_names_test {

TEST_CASE("ranks of a job that is a part of a program have their numbers in the whole") {
  const Communicator world = Communicator::world();
  // The ranks of a part are numbered from the last one on.
  const int parity = world.rank() % 2;
  const Communicator part = world.split(parity, world.size() - world.rank());
  {
    const JobWithin within(part);
    const RankNames names(part, world);
    CHECK(name_of_rank(part.rank()) == world.rank());
    CHECK(name_of_rank(part.size() - 1) == parity);
    // Of two ranks and more, the last is named.
    const bool fails = part.rank() == part.size() - 1;
    const std::string failure = joint_failure(part, fails ? "it is tired" : "");
    CHECK(failure ==
          (part.size() == 1 ? "it is tired" : fmt::format("rank {}: it is tired", parity)));
  }
  CHECK(name_of_rank(part.rank()) == part.rank());
}

}  // namespace meshwork::rank_names_test

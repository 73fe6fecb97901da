// Test cases that fail in every way, run one at a time by the tests of the harness.
#include <mpi.h>

#include <csignal>
#include <stdexcept>

#include "collectives/communicator.h"
#include "collectives/error.h"
#include "tests/support/catch.h"

using namespace meshwork;

namespace {

int rank() {
  return Communicator::world().rank();
}

void meet() {
  check_mpi(MPI_Barrier(Communicator::world().native()), "MPI_Barrier");
}

}  // namespace

TEST_CASE("all pass", "[.]") {
  const int i = GENERATE(1, 2);
  SECTION("in a section") {
    CHECK(i > 0);
  }
  SECTION("in another") {
    meet();
    CHECK_THAT("abc", Catch::Contains("b") && Catch::Matchers::ContainsSubstring("c"));
    CHECK_THROWS_WITH(fail("{} {}", 1, 2), Catch::StartsWith("1") && Catch::EndsWith("2"));
    CHECK(1.0 == Approx(1.0));
    CHECK(1.0 == Catch::Approx(1.0));
    CHECK_THAT(1.0, Catch::WithinAbs(1.1, 0.2) && Catch::WithinRel(1.0, 1e-6));
  }
}

TEST_CASE("one fails", "[.]") {
  CHECK(rank() != 1);
  meet();
}

TEST_CASE("one throws", "[.]") {
  if (rank() == 1) throw std::runtime_error("thrown here");
}

TEST_CASE("some fail", "[.]") {
  REQUIRE(rank() == 1);
}

TEST_CASE("one stays away", "[.]") {
  REQUIRE(rank() != 1);
  meet();
}

TEST_CASE("one crashes", "[.]") {
  if (rank() == 1) std::raise(SIGSEGV);
  meet();
}

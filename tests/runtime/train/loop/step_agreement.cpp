// Agreements at the end of steps: what comes out is the same on all ranks, and comes in time.
#include "runtime/train/loop/step_agreement.h"

#include <chrono>
#include <memory>
#include <thread>

#include "tests/support/catch.h"

namespace meshwork::step_agreement_test {

namespace {

struct Ranks {
  Communicator world = Communicator::world().duplicate();
  std::unique_ptr<Transport> transport = make_transport("mpi");
  [[nodiscard]] int last() const { return world.size() - 1; }
};

}  // namespace

TEST_CASE("any rank's reason counts, of the rest rank 0's word") {
  const Ranks ranks;
  StepAgreement agreement(*ranks.transport, ranks.world, true, false);
  StepWish own;
  own.stop_reason = ranks.world.rank() == ranks.last() ? 15 : 0;
  own.save = ranks.world.rank() != 0;
  own.settle = ranks.world.rank() == 0;
  own.callbacks_stop = ranks.world.rank() != 0;
  const StepWish wish = agreement.agree(1, own);
  CHECK(wish.stop_reason == 15);
  CHECK(wish.settle);
  CHECK_FALSE(wish.save);
  CHECK_FALSE(wish.callbacks_stop);
}

TEST_CASE("of several reasons the largest is everybody's") {
  const Ranks ranks;
  StepAgreement agreement(*ranks.transport, ranks.world, true, false);
  CHECK(agreement.agree(1, {.stop_reason = 10 + ranks.world.rank()}).stop_reason ==
        10 + ranks.last());
}

TEST_CASE("agreements lie farther apart while steps are short, and no farther than is fit") {
  const Ranks ranks;
  StepAgreement agreement(*ranks.transport, ranks.world, true, false);
  std::int64_t last = 0;
  std::int64_t distance = 1;
  int agreements = 0;
  for (std::int64_t iteration = 1; iteration <= 200; ++iteration) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (agreement.due(iteration)) {
      if (ranks.world.size() > 1) {
        // Twice as far as the last time at most; steps of 10 ms and more have half a second's
        // distance after at most 50 of them.
        CHECK(iteration - last <= 2 * distance);
        CHECK(iteration - last <= 50);
      }
      distance = iteration - last;
      last = iteration;
      ++agreements;
      (void)agreement.agree(iteration, {});
    }
  }
  CHECK(agreements >= 4);
  if (ranks.world.size() > 1) {
    CHECK(agreements <= 100);
  } else {
    CHECK(agreements == 200);  // nobody has to be asked
  }
}

TEST_CASE("callbacks that decide for themselves are asked after every step, others never") {
  const Ranks ranks;
  StepAgreement every(*ranks.transport, ranks.world, false, true);
  StepAgreement never(*ranks.transport, ranks.world, false, false);
  for (std::int64_t iteration = 1; iteration <= 5; ++iteration) {
    CHECK(every.due(iteration));
    CHECK_FALSE(never.due(iteration));
    (void)every.agree(iteration, {});
  }
  CHECK(every.wanted());
  CHECK_FALSE(never.wanted());
}

}  // namespace meshwork::step_agreement_test

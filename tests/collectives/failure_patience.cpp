#include "collectives/failure_patience.h"

#include <limits>
#include <optional>

#include "tests/support/catch.h"

namespace meshwork::failure_patience_test {

TEST_CASE("a rank that has failed is patient for less time than half of the shortest watchdog") {
  constexpr std::chrono::seconds longest{5};
  const auto patience = [&] { return failure_patience(longest).count(); };
  CHECK(patience() == 5);
  const WatchdogLimit none(std::numeric_limits<double>::infinity());
  CHECK(patience() == 5);
  const WatchdogLimit usual(1800);
  CHECK(patience() == 5);
  {
    const WatchdogLimit brief(6);
    CHECK(patience() > 2);
    CHECK(patience() < 3);
    const WatchdogLimit other(2);
    CHECK(patience() < 1);
  }
  CHECK(patience() == 5);
}

}  // namespace meshwork::failure_patience_test

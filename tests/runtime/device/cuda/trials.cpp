#include "runtime/device/cuda/trials.h"

#include <string>

#include "tests/support/catch.h"

namespace meshwork::cuda::trials_test {

namespace {

using Untried = Trials::Untried;

std::string no_memory() {
  throw NoTrialMemory("4096 bytes are not to be had on GPU 0: 12 of its 8192 bytes are free");
}

}  // namespace

TEST_CASE("a verdict is found out once and kept for its specification and key") {
  Trials trials;
  int tried = 0;
  const auto tries = [&](const std::string& reason) {
    return [&tried, reason] {
      ++tried;
      return reason;
    };
  };
  CHECK(trials.stands("matmul 4 x 4", "all fused, 0", "a", Untried::left, tries("")));
  CHECK(trials.stands("matmul 4 x 4", "all fused, 0", "a", Untried::left, tries("never asked")));
  CHECK(tried == 1);
  CHECK_FALSE(trials.stands("matmul 4 x 4", "all fused, 1", "b", Untried::left, tries("NaN")));
  CHECK_FALSE(trials.stands("matmul 4 x 4", "all fused, 1", "b", Untried::taken, tries("")));
  CHECK(tried == 2);
  // The same key of another specification is another kernel.
  CHECK(trials.stands("matmul 8 x 4", "all fused, 1", "b", Untried::left, tries("")));
  CHECK(tried == 3);
}

TEST_CASE("a remark counts what was refused, and says the first with its reason") {
  Trials trials;
  CHECK(trials.remark().empty());
  CHECK(trials.stands("matmul 4 x 4", "all fused, 0", "a", Untried::left, [] { return ""; }));
  CHECK(trials.remark().empty());
  CHECK_FALSE(trials.stands("matmul 4 x 4", "all fused, 1", "b", Untried::left,
                            [] { return "its relu of NaN is a number"; }));
  CHECK_FALSE(trials.stands("convolution 3 x 3", "algo_0", "algo_0", Untried::taken,
                            [] { return "not supported"; }));
  CHECK(trials.remark() ==
        "kernels: 2 of the GPU's libraries did not stand their trial and are not taken; the first "
        "is \"all fused, 1\" for matmul 4 x 4: its relu of NaN is a number");
  trials.note_last_resort("matmul 4 x 4", "a slow kernel of our own");
  trials.note_last_resort("matmul 4 x 4", "a slow kernel of our own");
  CHECK_THAT(trials.remark(),
             Catch::StartsWith("warning: the GPU's libraries have no kernel for 1 of the "
                               "specifications, such as matmul 4 x 4; a slow kernel of our own is "
                               "taken there\nkernels: 2 of"));
}

TEST_CASE("what there is no memory to try has no verdict: it is tried when there is") {
  Trials trials;
  // A plain kernel is taken meanwhile, and nothing is to be said of it.
  CHECK(trials.stands("matmul 4 x 4", "none fused, 0", "a", Untried::taken, no_memory));
  CHECK(trials.remark().empty());
  CHECK_FALSE(trials.stands("matmul 4 x 4", "none fused, 0", "a", Untried::taken,
                            [] { return "not supported"; }));
  // One of which more has to be shown is left, which is said.
  CHECK_FALSE(trials.stands("matmul 4 x 4 relu", "all fused, 0", "a", Untried::left, no_memory));
  CHECK_THAT(trials.remark(),
             Catch::Contains("no memory to try the fused kernels of 1 specifications, such as "
                             "matmul 4 x 4 relu") &&
                 Catch::Contains("4096 bytes are not to be had on GPU 0"));
  CHECK(trials.stands("matmul 4 x 4 relu", "all fused, 0", "a", Untried::left, [] { return ""; }));
  CHECK(trials.stands("matmul 4 x 4 relu", "all fused, 0", "a", Untried::left, no_memory));
}

}  // namespace meshwork::cuda::trials_test

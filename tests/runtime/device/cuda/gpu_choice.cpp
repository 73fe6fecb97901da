#include "runtime/device/cuda/gpu_choice.h"

#include <vector>

#include "tests/support/catch.h"

namespace meshwork::cuda::gpu_choice_test {

TEST_CASE("ranks take the GPUs of their node in order, one each") {
  for (int rank = 0; rank < 4; ++rank) CHECK(choose_gpu(8, 4, rank) == rank);
}

TEST_CASE("a process that is shown one GPU takes it") {
  for (int rank = 0; rank < 4; ++rank) CHECK(choose_gpu(1, 4, rank) == 0);
}

TEST_CASE("neighbouring ranks share where there are fewer GPUs, as evenly as can be") {
  // Five ranks on two GPUs: 0 1 2 and 3 4.
  CHECK(choose_gpu(2, 5, 2) == 0);
  CHECK(choose_gpu(2, 5, 3) == 1);
  for (int visible = 1; visible <= 8; ++visible) {
    for (int ranks = 1; ranks <= 17; ++ranks) {
      std::vector<int> shares(static_cast<std::size_t>(visible), 0);
      int last = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const int gpu = choose_gpu(visible, ranks, rank);
        CHECK(gpu >= last);
        CHECK(gpu < visible);
        last = gpu;
        ++shares[static_cast<std::size_t>(gpu)];
      }
      for (const int share : shares) CHECK(share <= (ranks + visible - 1) / visible);
    }
  }
}

TEST_CASE("waiting threads sleep where a rank has few cores") {
  CHECK(sleeps_while_waiting(2, 2, 1));
  CHECK_FALSE(sleeps_while_waiting(16, 16, 1));
  CHECK_FALSE(sleeps_while_waiting(16, 16, 4));
  CHECK(sleeps_while_waiting(16, 16, 8));
  // Bound to cores of its own.
  CHECK(sleeps_while_waiting(2, 16, 8));
  CHECK_FALSE(sleeps_while_waiting(4, 16, 4));
}

TEST_CASE("why there is no GPU is said with what can be done about it") {
  using State = Visibility::State;
  CHECK(version_text(13000) == "13.0");
  CHECK(version_text(12090) == "12.9");
  CHECK(why_none({.state = State::no_driver}, nullptr) ==
        "no NVIDIA driver is installed on this machine");
  CHECK(
      why_none({.state = State::old_driver, .driver = 12040, .runtime = 13000}, nullptr) ==
      "the NVIDIA driver supports CUDA 12.4 at most and this build needs 13.0; a newer driver, or "
      "a build with an older toolkit, is needed");
  CHECK(
      why_none({.state = State::broken, .problem = "cudaErrorSystemNotReady, not yet"}, nullptr) ==
      "CUDA cannot use the GPUs of this machine: cudaErrorSystemNotReady, not yet");
  CHECK(why_none({.state = State::none}, nullptr) == "no GPU is visible");
  CHECK(why_none({.state = State::none}, "") == "no GPU is visible (CUDA_VISIBLE_DEVICES is \"\")");
}

}  // namespace meshwork::cuda::gpu_choice_test

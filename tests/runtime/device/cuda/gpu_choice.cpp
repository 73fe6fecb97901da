#include "runtime/device/cuda/gpu_choice.h"

#include "tests/support/catch.h"

namespace meshwork::cuda {

TEST_CASE("ranks take the GPUs of their node in order, one each") {
  for (int rank = 0; rank < 4; ++rank) {
    const GpuChoice choice = choose_gpu(8, 4, rank);
    CHECK(choice.gpu == rank);
    CHECK(choice.ranks == 1);
  }
}

TEST_CASE("a process that is shown one GPU takes it") {
  for (int rank = 0; rank < 4; ++rank) {
    CHECK(choose_gpu(1, 4, rank).gpu == 0);
    CHECK(choose_gpu(1, 4, rank).ranks == 1);
  }
}

TEST_CASE("neighbouring ranks share where there are fewer GPUs, and know with how many") {
  // Five ranks on two GPUs: 0 1 2 and 3 4.
  CHECK(choose_gpu(2, 5, 2).gpu == 0);
  CHECK(choose_gpu(2, 5, 2).ranks == 3);
  CHECK(choose_gpu(2, 5, 3).gpu == 1);
  CHECK(choose_gpu(2, 5, 3).ranks == 2);
  for (int visible = 2; visible <= 8; ++visible) {
    for (int ranks = 1; ranks <= 17; ++ranks) {
      int last = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const GpuChoice choice = choose_gpu(visible, ranks, rank);
        CHECK(choice.gpu >= last);
        CHECK(choice.gpu < visible);
        CHECK(choice.ranks >= 1);
        CHECK(choice.ranks <= (ranks + visible - 1) / visible);
        last = choice.gpu;
      }
    }
  }
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

}  // namespace meshwork::cuda

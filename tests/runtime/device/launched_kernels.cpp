// Kernels that an extension launches, on the CUDA device's stand-in: launches of a test compute at once.
#include "runtime/device/launched_kernels.h"

#include <array>

#include "runtime/device/body_kernel.h"
#include "runtime/device/kernels/norms.h"
#include "tests/support/catch.h"
#include "tests/support/cuda_on_host/device.h"

namespace meshwork::launched_kernels_test {

namespace {

// y (count) = factor * x, by way of the workspace. Operands: x, y.
struct ScaledSpec {
  std::int64_t count = 0;
  float factor = 1;
  [[nodiscard]] std::string text() const { return spec::sized("scaled", {count}); }
  [[nodiscard]] KernelWork work() const { return {}; }
  void check() const {
    if (count < 0) throw std::runtime_error("a negative count");
  }
};

gpu::Launch launch_scaled(const ScaledSpec& of) {
  return {.start = [of](const gpu::Queue& queue, void* const* operands) -> const char* {
            REQUIRE(queue.processors == test::processors_of_cuda_on_host);
            for (std::int64_t i = 0; i < of.count; ++i) {
              at(operands, 2)[i] = of.factor * at(operands, 0)[i];
            }
            for (std::int64_t i = 0; i < of.count; ++i) {
              at(operands, 1)[i] = at(operands, 2)[i];
            }
            return of.factor == 0 ? "invalid configuration argument" : nullptr;
          },
          .workspace_bytes = of.count * 4};
}

}  // namespace

TEST_CASE("a device has the kernels that were entered before it was made, the last of each") {
  const std::unique_ptr<Device> before = test::make_cuda_on_host();
  gpu::extend_kernels([](gpu::Kernels& kernels) { kernels.add<ScaledSpec>(launch_scaled); });
  CHECK_THROWS_WITH(before->compile(ScaledSpec{3, 2}), "this device has no kernel for scaled 3");

  const std::unique_ptr<Device> device = test::make_cuda_on_host();
  const std::unique_ptr<Kernel> kernel = device->compile(ScaledSpec{3, 2});
  CHECK(kernel->workspace_bytes() == 12);
  std::array<float, 3> x{1, 2, 3}, y{}, workspace{};
  const std::array<void*, 3> operands{x.data(), y.data(), workspace.data()};
  kernel->run(operands.data());
  CHECK(y == std::array<float, 3>{2, 4, 6});
  CHECK_THROWS_WITH(device->compile(ScaledSpec{-1, 2}), "a negative count");
  CHECK_THROWS_WITH(
      device->compile(ScaledSpec{3, 0})->run(operands.data()),
      "scaled 3: the extension could not launch its kernel: invalid configuration argument");
  CHECK(device->candidates(ScaledSpec{3, 2}).empty());

  // Another of the same, and one of a kernel that the device has.
  static int calls = 0;
  gpu::extend_kernels([](gpu::Kernels& kernels) {
    const auto counted = [](const auto&) -> gpu::Launch {
      return {.start = [](const gpu::Queue&, void* const*) -> const char* {
        ++calls;
        return nullptr;
      }};
    };
    kernels.add<ScaledSpec>(counted);
    kernels.add<PowerSumSpec>(counted);
  });
  const std::unique_ptr<Device> after = test::make_cuda_on_host();
  after->compile(ScaledSpec{3, 2})->run(nullptr);
  CHECK(calls == 1);
  after->compile(PowerSumSpec{})->run(nullptr);
  CHECK(calls == 2);
  // A device that was there keeps what it had.
  CHECK(device->compile(ScaledSpec{3, 2})->workspace_bytes() == 12);
}

}  // namespace meshwork::launched_kernels_test

#include "tests/runtime/device/kernel_device.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <variant>

#include "collectives/error.h"
#include "runtime/device/cpu/compile.h"
#include "runtime/device/kernel_checks.h"
#include "tests/support/cuda_on_host/device.h"

namespace meshwork::test {

namespace {

constexpr int skipped = 77;

std::unique_ptr<Device> make() {
  const char* name = std::getenv("MESHWORK_TEST_DEVICE");
  const std::string kind = name == nullptr || *name == '\0' ? "cpu" : name;
  if (kind == "cuda-on-host") return make_cuda_on_host();
  if (kind == "cuda-on-host-unfolded") return make_cuda_on_host(true);
  try {
    return make_device({.kind = kind});
  } catch (const Error& error) {
    std::fprintf(stderr, "skipped: %s\n", error.what());
    std::_Exit(skipped);
  }
}

// Before the first test, and so before `main`, which knows of no devices.
const std::unique_ptr<Device> device = make();

}  // namespace

Device& kernel_device() {
  return *device;
}

std::vector<Precision> precisions() {
  std::vector<Precision> found{Precision::float32, Precision::bfloat16};
  if (kernel_device().is_faster_in(Precision::tf32)) found.push_back(Precision::tf32);
  return found;
}

std::unique_ptr<Kernel> compile_for_test(const KernelSpec& spec, int threads) {
  const auto* product = std::get_if<MatmulSpec>(&spec);
  if (kernel_device().kind() != "cpu" || (product != nullptr && product->narrow)) {
    return kernel_device().compile(spec);
  }
  check(spec);
  return std::visit(
      [&](const auto& one) { return cpu::compile(one, cpu::Context{.threads = threads}); }, spec);
}

}  // namespace meshwork::test

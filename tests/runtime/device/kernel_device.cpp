#include "tests/runtime/device/kernel_device.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "collectives/error.h"
#include "runtime/device/cpu/kernels.h"
#include "tests/support/allocations.h"
#include "tests/support/cuda_on_host/device.h"
#include "tests/support/session.h"

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
std::unique_ptr<Device> device = [] {
  after_tests([] { device.reset(); });
  return make();
}();

// The candidate named MESHWORK_TEST_CANDIDATE, else the first with this word in its name, where
// there is one. A word of no candidate of any kernel under test is a failure.
class ForcedCandidate {
 public:
  ~ForcedCandidate() {
    if (name_ == nullptr || found_) return;
    std::fprintf(stderr, "no kernel under test has a candidate with \"%s\"\n", name_);
    std::_Exit(1);
  }
  std::unique_ptr<Kernel> compile(const std::vector<KernelCandidate>& candidates) {
    if (name_ == nullptr) return nullptr;
    auto chosen = std::ranges::find(candidates, name_, &KernelCandidate::name);
    if (chosen == candidates.end()) {
      chosen =
          std::ranges::find_if(candidates, [&](const auto& one) { return has_word(one.name); });
    }
    if (chosen == candidates.end()) return nullptr;
    found_ = true;
    return chosen->compile();
  }

 private:
  [[nodiscard]] bool has_word(const std::string& name) const {
    return (" " + name + " ").find(" " + std::string(name_) + " ") != std::string::npos;
  }

  const char* name_ = std::getenv("MESHWORK_TEST_CANDIDATE");
  bool found_ = false;
};

std::unique_ptr<Kernel> forced_candidate(const KernelSpec& spec, int threads) {
  static ForcedCandidate forced;
  if (device->traits().kind != "cpu") return forced.compile(device->candidates(spec));
  const cpu::Context context = cpu_context(threads);
  return forced.compile(context.kernels->candidates(spec, context));
}

}  // namespace

cpu::Context cpu_context(int threads) {
  static const cpu::Kernels kernels = [] {
    cpu::Kernels all;
    cpu::add_kernels(all);
    return all;
  }();
  return {.threads = threads, .kernels = &kernels};
}

long allocation_count() {
  return allocations;
}

Device& kernel_device() {
  return *device;
}

std::vector<Precision> precisions() {
  std::vector<Precision> found{Precision::float32, Precision::bfloat16};
  if (kernel_device().is_faster_in(Precision::tf32)) found.push_back(Precision::tf32);
  return found;
}

std::unique_ptr<Kernel> compile_for_test(const KernelSpec& spec, int threads) {
  if (std::unique_ptr<Kernel> forced = forced_candidate(spec, threads)) return forced;
  if (kernel_device().traits().kind != "cpu") return kernel_device().compile(spec);
  return cpu::compile(spec, cpu_context(threads));
}

}  // namespace meshwork::test

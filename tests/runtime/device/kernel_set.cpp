#include "runtime/device/kernel_set.h"

#include <cxxabi.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <typeindex>

#include "runtime/device/cpu/kernels.h"
#include "tests/support/catch.h"
#include "tests/support/cuda_on_host/device.h"

namespace meshwork::kernel_set_test {

namespace {

struct DoubleSpec {
  double factor = 2;
  [[nodiscard]] std::string text() const { return "double"; }
  [[nodiscard]] KernelWork work() const { return {}; }
  void check() const {
    if (factor != 2) throw std::runtime_error("that is not double");
  }
};

/// "RowLossSpec" of RowLossSpec<HuberFunction>.
std::string name_of(std::type_index type) {
  const std::unique_ptr<char, decltype(&std::free)> whole(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, nullptr), std::free);
  std::string name = whole.get();
  name.resize(std::min(name.find('<'), name.size()));
  return name.substr(name.rfind(':') + 1);
}

}  // namespace

TEST_CASE("each kernel has a test") {
  std::string tests;
  for (const auto& file :
       std::filesystem::directory_iterator(MESHWORK_SOURCE_DIR "/tests/runtime/device")) {
    if (!file.is_regular_file()) continue;
    std::ifstream text(file.path());
    tests.append(std::istreambuf_iterator<char>(text), {});
  }
  cpu::Kernels kernels;
  cpu::add_kernels(kernels);
  for (const std::type_index type : kernels.types()) {
    const std::string name = name_of(type);
    std::size_t found = tests.find(name);
    while (found != std::string::npos && std::isalnum(tests[found - 1]) != 0) {
      found = tests.find(name, found + 1);
    }
    INFO(name);
    CHECK(found != std::string::npos);
  }
}

TEST_CASE("the CPU and the CUDA device have kernels for the same specifications") {
  cpu::Kernels kernels;
  cpu::add_kernels(kernels);
  CHECK(kernels.types().size() > 60);
  CHECK(kernels.types() == test::cuda_on_host_kernels());
}

TEST_CASE("a kernel of somebody else's is one like ours") {
  struct Factor final : Kernel {
    void run(void* const* operands) override { *static_cast<double*>(operands[0]) *= 2; }
  };
  cpu::Kernels kernels;
  const cpu::Context context{.kernels = &kernels};
  const KernelSpec spec = DoubleSpec{};
  CHECK_THROWS_WITH(cpu::compile(spec, context), "this device has no kernel for double");

  kernels.add<DoubleSpec>(
      [](const DoubleSpec&, const cpu::Context&) { return std::make_unique<Factor>(); });
  double value = 21;
  void* operand = &value;
  cpu::compile(spec, context)->run(&operand);
  CHECK(value == 42);
  CHECK(kernels.candidates(spec, context).empty());
  CHECK_THROWS_WITH(cpu::compile(DoubleSpec{3}, context), "that is not double");
}

}  // namespace meshwork::kernel_set_test

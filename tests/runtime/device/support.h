// What the tests of kernels share: operands between guards, random values, and the run of one
// kernel.
//
// Every array lies between guards and begins where no cache line does, as blocks of a flat buffer
// may; one that is not given values is dirty: all bits set, which is NaN as a float. A kernel runs
// with a workspace that is dirty and guarded too.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "runtime/device/cpu/compile.h"
#include "runtime/device/device.h"
#include "tests/support/catch.h"

namespace meshwork::test {

template <class T = float>
class Array {
 public:
  explicit Array(std::int64_t count)
      : count_(static_cast<std::size_t>(count)), storage_(count_ + 2 * guard) {
    std::memset(static_cast<void*>(storage_.data()), 0xff, storage_.size() * sizeof(T));
  }
  Array(const std::vector<T>& values) : Array(static_cast<std::int64_t>(values.size())) {
    std::copy(values.begin(), values.end(), data());
  }
  Array(std::initializer_list<T> values) : Array(std::vector<T>(values)) {}

  [[nodiscard]] T* data() { return storage_.data() + guard; }
  [[nodiscard]] const T* data() const { return storage_.data() + guard; }
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] T& operator[](std::size_t i) { return data()[i]; }
  [[nodiscard]] const T& operator[](std::size_t i) const { return data()[i]; }
  [[nodiscard]] std::vector<T> values() const { return {data(), data() + count_}; }

  /// Whether nobody wrote in front of the array or behind it.
  [[nodiscard]] bool intact() const {
    const auto untouched = [](const T* from) {
      const auto* bytes = reinterpret_cast<const unsigned char*>(from);
      for (std::size_t i = 0; i < guard * sizeof(T); ++i) {
        if (bytes[i] != 0xff) return false;
      }
      return true;
    };
    return untouched(storage_.data()) && untouched(storage_.data() + guard + count_);
  }

 private:
  static constexpr std::size_t guard = 37;
  std::size_t count_;
  std::vector<T> storage_;
};

/// Compiles `spec` for the CPU with `threads` and runs it once.
inline void run_kernel(const KernelSpec& spec, std::vector<void*> operands, int threads = 1) {
  const cpu::Context context{.threads = threads};
  const std::unique_ptr<Kernel> kernel =
      std::visit([&](const auto& one) { return cpu::compile(one, context); }, spec);
  Array<std::uint8_t> workspace(kernel->workspace_bytes() + 64);
  // Workspaces come from an arena, aligned to 64 bytes.
  const auto address = reinterpret_cast<std::uintptr_t>(workspace.data());
  if (kernel->workspace_bytes() > 0) {
    operands.push_back(workspace.data() + (64 - address % 64) % 64);
  }
  kernel->run(operands.data());
  INFO(describe(spec));
  CHECK(workspace.intact());
}

/// The same with arrays, whose guards are checked afterwards.
template <class... Arrays>
void run(const KernelSpec& spec, Arrays&... arrays) {
  run_kernel(spec, {arrays.data()...});
  INFO(describe(spec));
  CHECK((arrays.intact() && ...));
}

/// `count` values between `low` and `high`, the same for the same `seed`.
inline std::vector<float> random_values(std::int64_t count, unsigned seed, double low = -1,
                                        double high = 1) {
  std::mt19937 engine(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    value = static_cast<float>(low + (high - low) * static_cast<double>(engine()) / 4294967296.0);
  }
  return values;
}

/// Each actual value is within `relative` of the expected one, or within `absolute`.
template <class Actual>
void check_close(const Actual& actual, const std::vector<double>& expected, double relative,
                 double absolute = 0) {
  REQUIRE(actual.size() == expected.size());
  std::string difference;
  for (std::size_t i = 0; i < expected.size() && difference.empty(); ++i) {
    const double found = static_cast<double>(actual[i]);
    const double allowed = absolute + relative * std::fabs(expected[i]);
    const bool both_nan = std::isnan(found) && std::isnan(expected[i]);
    const bool same_infinity = found == expected[i];
    if (both_nan || same_infinity || std::fabs(found - expected[i]) <= allowed) continue;
    difference = fmt::format("element {} of {}: expected {}, found {}, allowed {}", i,
                             expected.size(), expected[i], found, allowed);
  }
  CHECK(difference == "");
}

/// Central difference of f at x.
template <class Function>
[[nodiscard]] double slope(const Function& f, double x, double h = 1e-6) {
  return (f(x + h) - f(x - h)) / (2 * h);
}

/// Sizes around those at which loops change their step.
inline const std::vector<std::int64_t> odd_sizes{0, 1, 2, 7, 15, 16, 17, 31, 33, 63, 64, 65, 257};

}  // namespace meshwork::test

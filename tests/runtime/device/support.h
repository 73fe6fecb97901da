// What the tests of kernels share: operands between guards, random values, and the run of one
// kernel on the device under test (kernel_device.h).
//
// Every array lies between guards and begins where no cache line does, as blocks of a flat buffer
// may; one that is not given values is dirty: all bits set, which is NaN as a float. It lies in the
// host's memory. While a kernel runs, the arrays that its operands point into lie in the device's,
// guards and all, at the same distance from a cache line; operands in one array stay in one. A
// kernel runs with a workspace that is dirty and guarded too. One that may write in the place of an
// input runs again and does so: it has to write the same bits.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/device/device.h"
#include "tests/runtime/device/kernel_device.h"
#include "tests/support/catch.h"

namespace meshwork::test {

/// The storage of all arrays there are: where it begins, and its bytes.
inline std::map<std::byte*, std::size_t>& array_storage() {
  static std::map<std::byte*, std::size_t> storage;
  return storage;
}

template <class T = float>
class Array {
 public:
  explicit Array(std::int64_t count)
      : count_(static_cast<std::size_t>(count)), storage_(count_ + 2 * guard) {
    std::memset(static_cast<void*>(storage_.data()), 0xff, storage_.size() * sizeof(T));
    array_storage()[begin()] = storage_.size() * sizeof(T);
  }
  Array(const Array& other) : count_(other.count_), storage_(other.storage_) {
    array_storage()[begin()] = storage_.size() * sizeof(T);
  }
  Array& operator=(const Array&) = delete;
  ~Array() { array_storage().erase(begin()); }
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
  [[nodiscard]] std::byte* begin() { return reinterpret_cast<std::byte*>(storage_.data()); }

  std::size_t count_;
  std::vector<T> storage_;
};

/// Whether operands lie on the device aligned to 64 bytes, as those in a program's arena do, and
/// not as in the host's memory: a library may take another way then.
inline bool operands_are_aligned = false;

/// The arrays of some operands in the memory of a device.
class OnDevice {
 public:
  explicit OnDevice(Device& device) : device_(device) {}

  /// Where `operand`, which points into an array, lies on the device.
  [[nodiscard]] void* place(void* operand) {
    auto* const address = static_cast<std::byte*>(operand);
    auto array = array_storage().upper_bound(address);
    if (array == array_storage().begin() ||
        address >= (--array)->first + static_cast<std::ptrdiff_t>(array->second)) {
      throw std::logic_error("an operand of a kernel under test points into no Array");
    }
    const auto bytes = static_cast<std::int64_t>(array->second);
    auto found = copies_.find(array->first);
    if (found == copies_.end()) {
      const std::int64_t shift =
          operands_are_aligned ? (64 - (address - array->first) % 64) % 64 : 0;
      found = copies_.emplace(array->first, Copy{device_.allocate(bytes + shift), shift}).first;
      device_.copy_in(found->second.memory.bytes_at(shift), array->first, bytes);
    }
    return found->second.memory.bytes_at(found->second.shift + (address - array->first));
  }
  void bring_back() {
    for (const auto& [host, copy] : copies_) {
      device_.copy_out(host, copy.memory.bytes_at(copy.shift), copy.memory.bytes() - copy.shift);
    }
  }
  /// What lies on the device in place of the array at `host`, guards and all.
  [[nodiscard]] std::vector<std::byte> now_at(std::byte* host) {
    const Copy& copy = copies_.at(host);
    std::vector<std::byte> bytes(static_cast<std::size_t>(copy.memory.bytes() - copy.shift));
    device_.copy_out(bytes.data(), copy.memory.bytes_at(copy.shift),
                     copy.memory.bytes() - copy.shift);
    return bytes;
  }

 private:
  struct Copy {
    Memory memory;
    std::int64_t shift;  // in front of the array
  };
  Device& device_;
  std::map<std::byte*, Copy> copies_;
};

/// Runs `kernel`, of `spec`, on operands that lie on the device, then `take_results`. On the CPU,
/// runs allocate nothing.
inline void run_there(const KernelSpec& spec, Kernel& kernel, std::vector<void*> operands,
                      const std::function<void()>& take_results) {
  Device& device = kernel_device();
  // Workspaces come from an arena, aligned to 64 bytes.
  constexpr std::int64_t guard = 64;
  std::vector<std::uint8_t> workspace(
      static_cast<std::size_t>(kernel.workspace_bytes() + 2 * guard), 0xff);
  const auto workspace_bytes = static_cast<std::int64_t>(workspace.size());
  const Memory scratch = device.allocate(workspace_bytes);
  if (kernel.workspace_bytes() > 0) {
    device.copy_in(scratch.data(), workspace.data(), workspace_bytes);
    operands.push_back(scratch.bytes_at(guard));
  }
  const auto allocations_of_run = [&] {
    const long before = allocation_count();
    kernel.run(operands.data());
    const long allocated = allocation_count() - before;
    device.synchronize();
    return allocated;
  };
  const bool allocates = allocations_of_run() > 0;
  take_results();
  INFO(spec.text());
  // Once is for all runs.
  if (allocates && device.traits().kind == "cpu") CHECK(allocations_of_run() == 0);
  if (kernel.workspace_bytes() == 0) return;
  device.copy_out(workspace.data(), scratch.data(), workspace_bytes);
  const auto untouched = [](auto first, auto last) {
    return std::all_of(first, last, [](std::uint8_t byte) { return byte == 0xff; });
  };
  CHECK(untouched(workspace.begin(), workspace.begin() + guard));
  CHECK(untouched(workspace.end() - guard, workspace.end()));
}

/// The array into which `operand` points.
[[nodiscard]] inline std::byte* array_at(void* operand) {
  return std::prev(array_storage().upper_bound(static_cast<std::byte*>(operand)))->first;
}

/// Whether `result` can lie on `input`: each is named once, and their arrays are alike.
[[nodiscard]] inline bool can_lie_on(void* input, void* result,
                                     const std::vector<void*>& operands) {
  const auto place_in_array = [](void* operand) {
    return static_cast<std::byte*>(operand) - array_at(operand);
  };
  return std::ranges::count(operands, input) == 1 && std::ranges::count(operands, result) == 1 &&
         array_storage().at(array_at(input)) == array_storage().at(array_at(result)) &&
         place_in_array(input) == place_in_array(result);
}

/// Compiles `spec` for the device under test, on the CPU with `threads`, and runs it once, and once
/// more in the place of each input that allows it.
inline void run_kernel(const KernelSpec& spec, const std::vector<void*>& operands,
                       int threads = 1) {
  const std::unique_ptr<Kernel> kernel = compile_for_test(spec, threads);
  const auto placed_in = [&](OnDevice& arrays) {
    std::vector<void*> places;
    for (void* operand : operands) places.push_back(arrays.place(operand));
    return places;
  };
  InPlace in_place = spec.in_place();
  if (in_place.output < 0) in_place.output = static_cast<int>(operands.size()) - 1;
  void* const result = operands[static_cast<std::size_t>(in_place.output)];
  // What a run has left in place of an array.
  struct Left {
    std::byte* array;
    std::vector<std::byte> bytes;
  };
  std::vector<Left> left;
  for (const int index : in_place.inputs) {
    void* const input = operands[static_cast<std::size_t>(index)];
    if (!can_lie_on(input, result, operands)) continue;
    OnDevice arrays(kernel_device());
    std::vector<void*> places = placed_in(arrays);
    places[static_cast<std::size_t>(in_place.output)] = places[static_cast<std::size_t>(index)];
    run_there(spec, *kernel, places, [&] {
      left.push_back({array_at(result), arrays.now_at(array_at(input))});
      for (void* operand : operands) {
        if (operand == input || operand == result) continue;
        left.push_back({array_at(operand), arrays.now_at(array_at(operand))});
      }
    });
  }
  OnDevice arrays(kernel_device());
  run_there(spec, *kernel, placed_in(arrays), [&] { arrays.bring_back(); });
  for (const auto& [array, bytes] : left) {
    INFO(spec.text() << " in the place of an input");
    CHECK(std::memcmp(bytes.data(), array, bytes.size()) == 0);
  }
}

/// The same with arrays, whose guards are checked afterwards.
template <class... Arrays>
void run(const KernelSpec& spec, Arrays&... arrays) {
  run_kernel(spec, {arrays.data()...});
  INFO(spec.text());
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
inline const std::vector<std::int64_t> odd_sizes{0,  1,  2,  7,  15, 16,  17,
                                                 31, 33, 63, 64, 65, 257, 1000};

}  // namespace meshwork::test

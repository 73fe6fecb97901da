// Trials: kernels of libraries, run once before they are taken.
//
// A library may name an algorithm and then refuse to run it, or run it and do what its
// documentation leaves open. Only the GPU tells. So an algorithm is run once on memory of its own.
// One that fails is no candidate; the next one is taken, and last of all a kernel of our own. A
// device keeps the verdicts: a specification is compiled for many programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device/cuda/kernels.h"

namespace meshwork::cuda {

/// Operands of a kernel, all bits 0 at first. Throws `Error` where there is no memory for them.
class Trial {
 public:
  Trial(std::span<const std::int64_t> operand_bytes, const Context& context);

  /// Sets every byte of an operand.
  void fill(int operand, int byte);
  template <class T>
  void write(int operand, const std::vector<T>& values) {
    context_->device->copy_in(operands_[index(operand)], values.data(), bytes_of(values));
  }
  template <class T>
  [[nodiscard]] std::vector<T> read(int operand, std::int64_t from, std::int64_t count) {
    std::vector<T> values(static_cast<std::size_t>(count));
    context_->device->copy_out(values.data(), static_cast<T*>(operands_[index(operand)]) + from,
                               bytes_of(values));
    return values;
  }
  /// Adds the workspace, if the kernel wants one. Before it is run.
  void prepare(const Kernel& kernel);
  void run(Kernel& kernel);

 private:
  static std::size_t index(int operand) { return static_cast<std::size_t>(operand); }
  template <class T>
  static std::int64_t bytes_of(const std::vector<T>& values) {
    return static_cast<std::int64_t>(values.size() * sizeof(T));
  }
  void add(std::int64_t bytes);

  const Context* context_;
  std::vector<Memory> memories_;
  std::vector<void*> operands_;
};

/// What a trial of `kernel` shows: why it is refused, or nothing. `try_it` throws `Error` or says.
[[nodiscard]] std::string refusal(const std::function<std::string()>& try_it);

/// The same for a kernel that only has to run. Where there is no memory to try it in, it is taken:
/// the library vouches for it, and the program may have the memory.
[[nodiscard]] std::string refusal_to_run(Kernel& kernel,
                                         std::span<const std::int64_t> operand_bytes,
                                         const Context& context);

/// The verdicts of one device.
class Trials {
 public:
  /// Whether `candidate` of the kernel `name` stands. `try_it` gives a refusal; it is called once
  /// for each pair of `name` and `key`.
  [[nodiscard]] bool stands(const std::string& name, std::string_view candidate,
                            std::string_view key, const std::function<std::string()>& try_it);
  /// Notes that no library's kernel stands for what was asked, and what is taken.
  void note_last_resort(const std::string& name, std::string_view taken);

  /// One line for people; empty if every library's kernel stood its trial.
  [[nodiscard]] std::string remark() const;

 private:
  std::map<std::string, bool> verdicts_;
  std::map<std::string, std::string> last_resorts_;  // what is taken, by what was asked for
  std::int64_t refused_ = 0;
  std::string first_;  // refusal
};

}  // namespace meshwork::cuda

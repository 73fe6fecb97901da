// Device: what one rank computes on. Memory, an execution stream, and compiled kernels.
//
// Operations see only this interface. A kernel is compiled from a specification (kernels.h) when a
// program is made, on this rank's local shapes, and run any number of times on bare pointers;
// running allocates nothing and looks nothing up. Kernels of one device run in the order in which
// they are started; `synchronize` waits for them. On `cpu` (oneDNN and plain loops) a kernel is
// done when `run` returns. `make_device` is the one place that knows which devices there are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/device/kernels.h"

namespace meshwork {

/// Owns a stretch of device memory, aligned to 64 bytes at least and filled with zeros.
class Memory {
 public:
  Memory() = default;
  Memory(void* data, std::int64_t bytes, std::function<void(void*)> release)
      : data_(data), bytes_(bytes), release_(std::move(release)) {}
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;
  ~Memory();

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::byte* bytes_at(std::int64_t offset) const {
    return static_cast<std::byte*>(data_) + offset;
  }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::int64_t bytes_ = 0;
  std::function<void(void*)> release_;
};

/// Something prepared that runs on pointers: a compiled kernel, or a collective bound to its
/// communicator and counts.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// Runs on `operands`, in the order that the specification documents; the workspace, if the
  /// kernel wants one, is the last.
  virtual void run(void* const* operands) = 0;
  /// Bytes of scratch memory that `run` needs as an additional last operand; 0 for none.
  [[nodiscard]] virtual std::int64_t workspace_bytes() const { return 0; }
};

class Device {
 public:
  virtual ~Device() = default;

  /// "cpu" or "cuda".
  [[nodiscard]] virtual std::string_view kind() const = 0;
  /// Whether kernels run on memory that was not allocated here, such as a transport's.
  [[nodiscard]] virtual bool computes_in_host_memory() const = 0;
  /// One line for people: model, cores or memory, threads.
  [[nodiscard]] virtual std::string description() const = 0;
  /// Whether products in `precision` are faster here than in float32. Where they are not, kernels
  /// compute the same numbers in float32, and take the rounding of operands on top.
  [[nodiscard]] virtual bool is_faster_in(Precision precision) const;

  /// Throws `Error` with the bytes asked for and those free if the memory is not to be had.
  [[nodiscard]] virtual Memory allocate(std::int64_t bytes) = 0;
  /// Blocking copies between host and device memory.
  virtual void copy_in(void* device_destination, const void* host_source, std::int64_t bytes) = 0;
  virtual void copy_out(void* host_destination, const void* device_source, std::int64_t bytes) = 0;
  virtual void synchronize() = 0;

  /// A kernel for exactly these shapes. Throws `Error` for a specification that the device cannot
  /// run.
  [[nodiscard]] virtual std::unique_ptr<Kernel> compile(const KernelSpec& spec) = 0;
};

struct DeviceOptions {
  std::string kind = "auto";  // auto, cpu, cuda
  int ranks_on_node = 1;      // they share out the node's cores or GPUs
  int rank_on_node = 0;
};

/// The device of this rank. Throws `Error` naming those built in if `kind` is not among them.
[[nodiscard]] std::unique_ptr<Device> make_device(const DeviceOptions& options);

}  // namespace meshwork

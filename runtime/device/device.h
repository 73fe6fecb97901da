// Device: what one rank computes on. Memory, an execution stream, and compiled kernels.
//
// Operations see only this interface. A kernel is compiled from a specification (kernel_spec.h) when a
// program is made, on this rank's local shapes, and run any number of times on bare pointers;
// running allocates nothing and looks nothing up. `run` starts a kernel in the device's queue of
// kernels (collectives/device_queues.h), where kernels run in the order in which they were started;
// it may return before they are done. On `cpu` (oneDNN and plain loops) a kernel is done when `run`
// returns.
//
// Nobody but a device touches its memory. From the host there are two ways to it. `copy_in` and
// `copy_out` wait: for what was started in any queue before, and until they are done. In a step,
// where the host shall not wait, copies are started in a queue.
//
// `make_device` is the one place that knows which devices there are. A program can add kinds of its
// own with `add_device_kind`; `auto` takes them, and so does who names them in C++.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/device_queues.h"
#include "collectives/memory.h"
#include "runtime/device/kernel_spec.h"
#include "runtime/device/kernels/precision.h"

namespace meshwork {

/// Something prepared that runs on pointers: a compiled kernel, or a collective bound to its
/// communicator and counts.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// Runs on `operands`, in the order that the specification documents; the workspace, if the
  /// kernel wants one, is the last. A kernel of a device is started, and may run on after it.
  virtual void run(void* const* operands) = 0;
  /// Bytes of scratch memory that `run` needs as an additional last operand; 0 for none.
  [[nodiscard]] virtual std::int64_t workspace_bytes() const { return 0; }

  // Of a kernel that no device has compiled, such as a collective.

  /// Whether all that `run` does is to start work in the device's queues, on the same operands the
  /// same: then it can be captured (DeviceQueues::capture). What a device has compiled always can.
  [[nodiscard]] virtual bool is_enqueued() const { return false; }
  /// The kernel that starts what this one ends; null for one that starts nothing, or ends it
  /// itself.
  [[nodiscard]] virtual const Kernel* begun_by() const { return nullptr; }
  /// Called instead of `run` when what it has started while that was captured is started: for what
  /// the host has to know of it, and `run` does not note then.
  virtual void note_start() {}
};

/// One of several kernels for one specification.
struct KernelCandidate {
  std::string name;  // stable, since records hold it
  std::function<std::unique_ptr<Kernel>()> compile;
};

/// What plans have to know of a kind of device; there may be none of it on this machine.
struct DeviceTraits {
  std::string kind = "cpu";  // "cpu", "cuda", or the name of a kind that was added
  /// Whether kernels run on memory that the device did not allocate, such as a transport's, and
  /// are done when `run` returns.
  bool computes_in_host_memory = true;
  /// Whether products in bfloat16 read operands that are stored in it (MatmulSpec::narrow). Else
  /// they round while they read, and who narrows operands beforehand only loses time.
  bool reads_narrow_operands = false;
  /// Whether products take the derivative of relu from a mask (MatmulSpec::mask) at less cost than
  /// from its value, so that it pays to write one forward.
  bool reads_relu_masks = false;
};

class Device {
 public:
  /// `traits` are those of its kind.
  explicit Device(DeviceTraits traits) : traits_(std::move(traits)) {}
  virtual ~Device() = default;

  [[nodiscard]] const DeviceTraits& traits() const { return traits_; }
  /// One line for people: model, cores or memory, threads.
  [[nodiscard]] virtual std::string description() const = 0;
  /// What the speed of its kernels depends on, in one line for records: model, threads, libraries
  /// with their versions. The same for devices that are alike.
  [[nodiscard]] virtual std::string platform() const { return description(); }
  /// The hardware that this rank does not share out with others of its node by itself: a text that
  /// is the same for ranks that have the same; empty where there is none.
  [[nodiscard]] virtual std::string hardware() const { return {}; }
  /// So many ranks have this hardware, which is divided between them.
  virtual void share(int /*ranks*/) {}
  /// What people should know of the kernels that were compiled, such as that a library has refused
  /// one; empty for nothing.
  [[nodiscard]] virtual std::string remark() const { return {}; }
  /// Whether products in `precision` are faster here than in float32. Where they are not, kernels
  /// compute the same numbers in float32, and take the rounding of operands on top.
  [[nodiscard]] virtual bool is_faster_in(Precision precision) const;
  /// Bytes of its own memory that are free now, this rank's share where ranks share the device; 0
  /// where it computes in the host's memory.
  [[nodiscard]] virtual std::int64_t free_bytes() { return 0; }

  /// The calling thread uses the device from here on, if another one has made it or it has used
  /// another device meanwhile. Programs, and what a step is fed and read by, do this themselves.
  virtual void make_current() {}

  /// Memory filled with zeros. Taking and releasing it may wait for what was started: when it is
  /// released, nothing that was started uses it. Throws `Error` with the bytes asked for and those
  /// free if the memory is not to be had.
  [[nodiscard]] virtual Memory allocate(std::int64_t bytes) = 0;
  /// Between the host's memory and the device's, behind everything that was started in any queue;
  /// done when they return. Throw `Error` if something that was started failed.
  virtual void copy_in(void* device_destination, const void* host_source, std::int64_t bytes) = 0;
  virtual void copy_out(void* host_destination, const void* device_source, std::int64_t bytes) = 0;
  /// Returns when everything that was started in any queue is done. Throws `Error` if it failed.
  virtual void synchronize() = 0;
  /// The device as transports see it, for as long as it lives.
  [[nodiscard]] virtual DeviceQueues& queues() = 0;

  /// A kernel for exactly these shapes. Throws `Error` for a specification that the device cannot
  /// run.
  [[nodiscard]] virtual std::unique_ptr<Kernel> compile(const KernelSpec& spec) = 0;
  /// The kernels for `spec`, where there are several of which now one and now another is the
  /// fastest (kernel_candidates.h); the first is what `compile` gives. Else none.
  [[nodiscard]] virtual std::vector<KernelCandidate> candidates(const KernelSpec& spec);

 private:
  DeviceTraits traits_;
};

struct DeviceOptions {
  std::string kind = "auto";  // auto, cpu, cuda, or one that was added
  int ranks_on_node = 1;      // they share out the node's cores or GPUs
  int rank_on_node = 0;
};

/// The device of this rank. Throws `Error` naming those there are if `kind` is not among them.
[[nodiscard]] std::unique_ptr<Device> make_device(const DeviceOptions& options);

/// Of what `make_device` would make; "auto" is looked up on this machine. Makes none. Throws `Error`
/// for a name that is none.
[[nodiscard]] DeviceTraits traits_of_device(const std::string& kind);

/// Every kind of device that can be asked for, those of other builds too; without "auto".
[[nodiscard]] std::vector<std::string> device_kinds();

/// Makes the device of one rank; throws `Error` if it cannot.
using DeviceFactory = std::function<std::unique_ptr<Device>(const DeviceOptions& options)>;

/// From now on, in this process, `make` makes devices of these traits, which name a kind. `auto`
/// prefers it to those that were there before. Called by `main` before models are made, on all ranks alike; not
/// while another thread makes a device. Throws `Error` if there is a kind of that name.
void add_device_kind(DeviceTraits traits, DeviceFactory make);
/// Undoes that, once no device of the kind is left. Does nothing for a kind that was not added.
void remove_device_kind(const std::string& kind);

}  // namespace meshwork

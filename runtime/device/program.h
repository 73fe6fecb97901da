// Program: what a rank executes, a flat list of prepared instructions over planned memory.
//
// A `ProgramBuilder` books: scratch buffers, and instructions (a kernel with its operands). Booking runs
// nothing. `finish` derives each scratch buffer's lifetime from the first and the last instruction that
// names it, gives buffers whose lifetimes do not meet the same place in one arena (first fit, largest
// first), and binds every operand to its address. From then on a `Program` is a walk over an array:
// `run` allocates nothing, looks nothing up and takes no decision.
//
// Words: a *buffer* is a stretch of memory with a size; it is `scratch` (placed in the arena) or
// `external` (memory that exists already: parameters, inputs). An *operand* is an offset into a buffer.
// A buffer whose content has to outlive the program (a result that the caller reads) is `kept`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device/device.h"

namespace meshwork {

/// A buffer of one builder.
struct Buffer {
  int id = -1;
  [[nodiscard]] bool exists() const { return id >= 0; }
  bool operator==(const Buffer&) const = default;
};

/// A place `offset` bytes into a buffer.
struct Operand {
  Buffer buffer;
  std::int64_t offset = 0;
  Operand() = default;
  Operand(Buffer b) : buffer(b) {}
  Operand(Buffer b, std::int64_t bytes) : buffer(b), offset(bytes) {}
};

/// What `finish` made of the scratch buffers.
struct ArenaSummary {
  std::int64_t bytes = 0;            // of the arena
  std::int64_t bytes_if_unshared = 0;  // the sum of all buffers
};

class Program {
 public:
  /// Runs every instruction in order. An exception of a kernel is rethrown as an `Error` that begins
  /// with the instruction's label.
  void run();
  [[nodiscard]] std::size_t instruction_count() const { return instructions_.size(); }
  /// The address of a kept buffer.
  [[nodiscard]] void* address(Buffer buffer) const;
  [[nodiscard]] const ArenaSummary& arena() const { return summary_; }
  /// Labels in order, one an instruction.
  [[nodiscard]] const std::vector<std::string>& labels() const { return labels_; }

 private:
  friend class ProgramBuilder;
  struct Instruction {
    Kernel* kernel;
    void* const* operands;
  };
  std::vector<Instruction> instructions_;
  std::vector<void*> operands_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<std::string> labels_;
  std::vector<void*> addresses_;
  std::shared_ptr<Memory> arena_;
  ArenaSummary summary_;
};

/// Memory that several programs use in turn: the arenas of a model's programs never live at once, so
/// they share one block as large as the largest. Grows when a program is finished, never later.
class ArenaPool {
 public:
  explicit ArenaPool(Device& device) : device_(&device) {}
  [[nodiscard]] Device& device() const { return *device_; }

 private:
  friend class ProgramBuilder;
  Device* device_;
  std::shared_ptr<Memory> memory_;
};

class ProgramBuilder {
 public:
  explicit ProgramBuilder(Device& device) : device_(&device) {}

  [[nodiscard]] Device& device() const { return *device_; }

  /// A scratch buffer of `bytes`; `label` for messages and tables.
  [[nodiscard]] Buffer scratch(std::int64_t bytes, std::string label);
  /// Memory that exists already and outlives the program.
  [[nodiscard]] Buffer external(void* data, std::int64_t bytes, std::string label);
  /// The buffer's content must be there after `run`: nothing takes its place.
  void keep(Buffer buffer);
  /// The buffer is written by somebody before `run` (an input): nothing takes its place before its
  /// last use.
  void preset(Buffer buffer);

  /// Books a kernel; its workspace, if it wants one, is added.
  void emit(std::unique_ptr<Kernel> kernel, std::vector<Operand> operands, std::string label);
  /// Compiles `spec` on the device and books it, labelled `label` and the kernel's description.
  void emit(const KernelSpec& spec, std::vector<Operand> operands, const std::string& label);

  /// The program. The builder is empty afterwards. With a pool, the arena is the pool's block.
  [[nodiscard]] Program finish();
  [[nodiscard]] Program finish(ArenaPool& pool);

 private:
  struct Booking {
    std::int64_t bytes = 0;
    void* external = nullptr;
    std::string label;
    bool kept = false, preset = false;
    int first = -1, last = -1;  // instructions
    std::int64_t offset = 0;
  };
  struct Entry {
    std::unique_ptr<Kernel> kernel;
    std::vector<Operand> operands;
    std::string label;
  };
  Device* device_;
  std::vector<Booking> buffers_;
  std::vector<Entry> entries_;
};

}  // namespace meshwork

// Program: what a rank executes, a flat list of prepared instructions over planned memory.
//
// A `ProgramBuilder` books: scratch buffers, and instructions (a kernel with its operands). Booking
// runs nothing. `finish` derives each scratch buffer's lifetime from the first and the last
// instruction that names it, gives buffers whose lifetimes do not meet the same place in one arena
// (first fit, largest first), and binds every operand to its address. A result takes the place of
// an input that its kernel reads last, where the kernel may write there, unless the arena grows by
// that. From then on a `Program` is a walk over an array: `run` allocates nothing, looks nothing up
// and takes no decision.
//
// Words: a *buffer* is a stretch of memory with a size; it is `scratch` (placed in the arena) or
// `external` (memory that exists already: parameters, inputs). An *operand* is an offset into a
// buffer. A buffer whose content has to outlive the program (a result that the caller reads) is
// `kept`.
//
// While it runs, a program stores the address of each instruction's label where a trace has its
// activity (collectives/trace.h), so that a rank which hangs can be asked in which instruction. It
// can be *measured*: then it reads the clock between instructions, the device's where kernels run
// on after they were started.
//
// On a device that can *capture* (collectives/device_queues.h), consecutive instructions that are
// enqueued become one after the first run (captured_piece.h): what is left of a run is one launch,
// or, where the host has a part in some collectives, these, and a launch for all between two. An
// address that changes has them captured anew; so has, since it changes on one rank and not on
// another, every program that is finished in the pool.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/trace.h"
#include "runtime/device/captured_piece.h"
#include "runtime/device/device.h"
#include "runtime/device/kernel_record.h"
#include "runtime/device/kernel_spec.h"

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
  /// What stands `count` elements further on.
  [[nodiscard]] Operand after(std::int64_t count, ElementType type = ElementType::float32) const {
    return {buffer, offset + count * element_bytes(type)};
  }
  bool operator==(const Operand&) const = default;
};

/// A scratch buffer that was to be observed: float32 values that are looked at after a run, to find
/// out where something went wrong. Others may have taken its place, or parts of it, meanwhile.
struct Observation {
  struct Stretch {
    std::int64_t offset;  // bytes into the arena
    std::int64_t count;   // elements
  };
  std::string label;                 // of the buffer
  std::size_t instruction = 0;       // that wrote it first, an index into the labels
  std::int64_t count = 0;            // elements
  std::vector<Stretch> still_there;  // what is not overwritten by the end of a run
};

/// What `finish` made of the scratch buffers.
struct ArenaSummary {
  std::int64_t bytes = 0;              // of the arena
  std::int64_t bytes_if_unshared = 0;  // the sum of all buffers
};

/// The times of a program's instructions, summed over the runs that were measured.
struct MeasuredTimes {
  std::int64_t runs = 0;
  std::vector<double> seconds;  // by instruction
};

class Program {
 public:
  Program() = default;

  /// Runs every instruction in order. An exception of a kernel is rethrown as an `Error` that
  /// begins with the instruction's label.
  void run();
  /// From now on runs are measured, all anew, and wait for the device. On one whose kernels run on
  /// after they were started, an instruction's time is from the end of the one before to its own
  /// end, as the queue of kernels sees them.
  void measure();
  void stop_measuring();
  /// Empty if nothing is measured.
  [[nodiscard]] const MeasuredTimes& measured() const { return measured_; }
  /// From now on `trace`, which must outlive the program, says which instruction is running.
  void record_in(CollectiveTrace& trace);
  /// For a program that other ranks run as well: how all learn whether all could capture a piece
  /// with collectives. Called in a run, while the activity is the piece.
  void agree_by(OnAllRanks on_all_ranks) { on_all_ranks_ = std::move(on_all_ranks); }
  /// Gives back what was captured; the next runs are as the first ones.
  void release_captured();
  [[nodiscard]] std::size_t instruction_count() const { return instructions_.size(); }
  /// What the last run started, one after the other: instructions, and captured pieces of them.
  [[nodiscard]] std::size_t start_count() const {
    return captured_.empty() ? instructions_.size() : captured_.size();
  }
  /// The address of a buffer that is kept, preset or external. In a pool it may change when another
  /// program is finished, so ask when it is needed.
  [[nodiscard]] void* address(Buffer buffer) const;
  [[nodiscard]] const ArenaSummary& arena() const { return summary_; }
  /// Labels in order, one an instruction.
  [[nodiscard]] const std::vector<std::string>& labels() const { return labels_; }
  /// The work of each instruction; none for what is no kernel of the device: collectives.
  [[nodiscard]] const std::vector<std::optional<KernelWork>>& works() const { return works_; }
  /// The instruction that starts what `instruction` ends; itself if that is none.
  [[nodiscard]] std::size_t beginning_of(std::size_t instruction) const;
  /// The buffers to be observed, by the instruction that first wrote them. What they hold is lost
  /// when another program of the pool runs.
  [[nodiscard]] const std::vector<Observation>& observations() const { return observations_; }
  /// Where a stretch of one is.
  [[nodiscard]] const float* at(const Observation::Stretch& stretch) const;

 private:
  friend class ProgramBuilder;
  friend class ArenaPool;

  struct Instruction {
    Kernel* kernel;
    void* const* operands;
    const std::string* label;
  };
  /// Where operands and buffers lie, and how they follow from where the arena does.
  struct Binding {
    struct Reference {
      std::size_t index;
      std::int64_t offset;  // into the arena
    };
    std::vector<void*> operands;  // of all instructions, one after the other
    std::vector<void*> buffers;   // meaningful where has_address
    std::vector<bool> has_address;
    std::vector<Reference> operands_in_arena, buffers_in_arena;
    std::int64_t bound = 0;  // how often

    void bind(std::byte* arena);
  };

  template <class AfterEach>
  void walk(const std::vector<Instruction>& instructions, const AfterEach& after_each);
  void run_measured();
  /// What a run walks: the instructions, or what was made of them.
  [[nodiscard]] const std::vector<Instruction>& prepared();
  void make_pieces();

  std::vector<Instruction> instructions_;
  std::shared_ptr<Binding> binding_;  // goes after the kernels, which may still read it
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<std::string> labels_;
  std::vector<std::optional<KernelWork>> works_;
  MeasuredTimes measured_;
  std::vector<std::unique_ptr<Mark>> marks_;  // around instructions that are measured by the device
  Device* device_ = nullptr;
  bool captures_ = false;              // the device's kernels are captured, or will be
  std::vector<Instruction> captured_;  // as bound `captured_bound_` times; empty: not yet
  std::vector<std::unique_ptr<CapturedPiece>> pieces_;
  std::int64_t captured_bound_ = -1;
  OnAllRanks on_all_ranks_ = [](bool here) { return here; };
  CollectiveTrace* trace_ = nullptr;
  std::unique_ptr<std::atomic<const std::string*>>
      unread_;  // the activity while nobody asks for it
  std::atomic<const std::string*>* activity_ = nullptr;
  std::shared_ptr<Memory> arena_;  // of this program alone, or the holder of the pool's block
  ArenaSummary summary_;
  std::vector<Observation> observations_;
};

/// Memory that several programs use in turn: the arenas of a model's programs never live at once,
/// so they share one block as large as the largest. It grows when a program is finished, never
/// later, and then rebinds the programs that it has: they stay valid, also when the pool itself is
/// gone. What a buffer holds (kept and preset ones too) is lost when another program runs or is
/// finished.
class ArenaPool {
 public:
  explicit ArenaPool(Device& device);
  [[nodiscard]] Device& device() const { return *device_; }
  /// Bytes of the block.
  [[nodiscard]] std::int64_t bytes() const { return memory_->bytes(); }

 private:
  friend class ProgramBuilder;
  void add(Program& program);

  Device* device_;
  std::shared_ptr<Memory> memory_;  // replaced in place, for all who hold it
  std::vector<std::weak_ptr<Program::Binding>> bindings_;
};

class ProgramBuilder {
 public:
  /// Where `chosen`, which must outlive the builder, names a candidate for a specification, that
  /// one is compiled.
  explicit ProgramBuilder(Device& device, const KernelRecord* chosen = nullptr)
      : device_(&device), chosen_(chosen) {}
  /// A builder that only plans: nothing is compiled, external memory may be absent, and instead of
  /// a program it gives the size of the arena. `specs`, if there is a list, gets what is emitted.
  explicit ProgramBuilder(std::vector<KernelSpec>* specs = nullptr) : specs_(specs) {}

  /// A scratch buffer of `bytes`; `label` for messages and tables.
  [[nodiscard]] Buffer scratch(std::int64_t bytes, std::string label);
  /// Memory that exists already and outlives the program.
  [[nodiscard]] Buffer external(void* data, std::int64_t bytes, std::string label);
  /// The buffer's content must be there after `run`: nothing takes its place.
  void keep(Buffer buffer);
  /// The buffer is written by somebody before `run` (an input): nothing takes its place before its
  /// last use. With `keep`, nothing ever does.
  void preset(Buffer buffer);
  /// The buffer, of float32, is to be among `Program::observations`. It changes nothing else.
  void observe(Buffer buffer);

  /// Books a kernel; its workspace, if it wants one, is added.
  void emit(std::unique_ptr<Kernel> kernel, std::vector<Operand> operands, std::string label,
            std::optional<KernelWork> work = {});
  /// Compiles `spec` on the device and books it, labelled "label: description of the kernel", and
  /// " by candidate" where one was chosen. Where the kernel booked just before and this one can be
  /// one (kernel_joins.h), they are, labelled with both labels.
  void emit(const KernelSpec& spec, std::vector<Operand> operands, const std::string& label);

  /// From now on every kernel of the device is followed by one that `make` makes, if that is not
  /// null, labelled `label`: what is to go on between them. Without `make`: no longer.
  void follow_kernels(std::function<std::unique_ptr<Kernel>()> make = {}, std::string label = {});

  /// The program. The builder is empty afterwards, and buffers are numbered from 0 again. With a
  /// pool, the arena is the pool's block.
  [[nodiscard]] Program finish();
  /// What the arena would be. Workspaces of kernels, which only compiling tells, are not in it.
  [[nodiscard]] ArenaSummary plan_arena();
  [[nodiscard]] Program finish(ArenaPool& pool);

 private:
  struct Booking {
    std::int64_t bytes = 0;
    void* external = nullptr;
    std::string label;
    bool in_arena = true;  // else external
    bool kept = false, preset = false, observed = false;
    // The instructions during which it holds something, both inclusive; none if last < first. A
    // preset buffer begins at -1, a kept one ends behind the last instruction.
    int first = 0, last = -1;
    int taken_by = -1;        // the buffer that lies in its place from `last` on
    std::int64_t offset = 0;  // into the arena
  };
  struct Entry {
    std::unique_ptr<Kernel> kernel;
    std::vector<Operand> operands;
    std::string label;
    std::optional<KernelWork> work;
    InPlace in_place = {};
  };
  /// The last entry, if it is a specification's: what may be joined.
  struct Emitted {
    KernelSpec spec;
    std::vector<Operand> operands;
    std::string label;
  };
  Booking& booking_of(Buffer buffer, std::string_view what);
  void find_lifetimes();
  /// Which results take the place of an input.
  void find_heirs();
  /// Places all buffers, those that take each other's place as one.
  ArenaSummary place_stretches();
  ArenaSummary place();
  [[nodiscard]] std::vector<Observation> observations() const;
  /// The program but for the arena, which it is not bound to.
  Program assemble();

  Device* device_ = nullptr;
  const KernelRecord* chosen_ = nullptr;
  std::vector<KernelSpec>* specs_ = nullptr;
  std::vector<Booking> buffers_;
  std::vector<Entry> entries_;
  std::optional<Emitted> last_;
  std::function<std::unique_ptr<Kernel>()> make_follower_;
  std::string follower_label_;
};

}  // namespace meshwork

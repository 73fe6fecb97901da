// Collectives as kernels, bound to mesh axes and counts when a program is made.
//
// `MeshCollectives` is what lowering books communication through. It makes kernels, and keeps a
// record of each, in order: the records are what `meshwork plan` prints, what the ranks compare
// before the first step, and what a run's counters are held against. Over a mesh that is there the
// kernels are bound to its communicators (`bind_collectives`); for one that is not there,
// `plan_collectives` gives the same records and kernels that cannot be run.
//
// Axes are given ascending; the ranks of the communicator over them are numbered row-major. Counts
// and offsets are in elements, one for each of those ranks. Operands: the buffers of the
// transport's operation, send before receive, in place for all_reduce.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/trace.h"
#include "collectives/transport.h"
#include "runtime/device/device.h"
#include "runtime/mesh/device_mesh.h"

namespace meshwork {

enum class CollectiveKind : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  permute,
  halo
};
[[nodiscard]] std::string_view name_of(CollectiveKind kind);

/// What a collective is for, as tables and error messages name it.
struct CollectivePurpose {
  std::string phase;  // "forward", "backward", "update", "metrics"
  std::string what;   // "d1/kernel gathered", "gradients d2/kernel ... d1/bias"
};

struct CollectiveRecord {
  CollectiveKind kind = CollectiveKind::all_reduce;
  CollectivePurpose purpose;
  std::vector<Axis> axes;
  ElementType type = ElementType::float32;
  Reduction reduction = Reduction::sum;
  std::int64_t global_elements = 0;  // of the tensor or span that it moves: the same on all ranks
  std::int64_t bytes_sent = 0;       // by this rank, as elements_sent in redistribution.h counts
};

/// "all_reduce sum float32 x 2570 over data: gradients ...": equal on all ranks that agree.
[[nodiscard]] std::string describe(const CollectiveRecord& record, const MeshShape& mesh);

class MeshCollectives {
 public:
  virtual ~MeshCollectives() = default;

  [[nodiscard]] virtual const MeshShape& mesh() const = 0;
  [[nodiscard]] virtual std::int64_t rank() const = 0;

  /// Operands: buffer.
  [[nodiscard]] virtual std::unique_ptr<Kernel> all_reduce(const CollectiveRecord& record,
                                                           std::int64_t count) = 0;
  /// How long a started collective is under way: beside any other, or waited for before the next
  /// that is brief is started, so that all these take memory of the transport for one.
  enum class UnderWay : std::uint8_t { beside_others, briefly };
  /// The same, started by the first kernel and waited for by the second, each with operand: buffer.
  [[nodiscard]] virtual std::pair<std::unique_ptr<Kernel>, std::unique_ptr<Kernel>>
  started_all_reduce(const CollectiveRecord& record, std::int64_t count,
                     UnderWay under_way = UnderWay::beside_others) = 0;
  /// The same, but a rank gets its part of the result alone (as start_reduce_in_parts in
  /// transport.h has it), and others may read the buffer until the next barrier of sharers.
  [[nodiscard]] virtual std::pair<std::unique_ptr<Kernel>, std::unique_ptr<Kernel>>
  started_reduce_in_parts(const CollectiveRecord& record, std::int64_t count) = 0;
  /// Those of the ranks over `axes` that share memory wait for each other, and see what each has
  /// written there. It sends nothing and leaves no record. No operands.
  [[nodiscard]] virtual std::unique_ptr<Kernel> barrier_of_sharers(
      const std::vector<Axis>& axes, const CollectivePurpose& purpose) = 0;
  /// Brings on what was started, to be put between kernels that run meanwhile; null where that is
  /// of no use. It sends nothing that has no record, and leaves none. No operands.
  [[nodiscard]] virtual std::unique_ptr<Kernel> advance() { return nullptr; }
  /// Operands: send, receive.
  [[nodiscard]] virtual std::unique_ptr<Kernel> reduce_scatter(
      const CollectiveRecord& record, std::vector<std::int64_t> counts) = 0;
  /// Operands: send, receive.
  [[nodiscard]] virtual std::unique_ptr<Kernel> all_gather(const CollectiveRecord& record,
                                                           std::vector<std::int64_t> counts,
                                                           std::vector<std::int64_t> offsets) = 0;
  /// Operands: send, receive. For all_to_all and permute.
  [[nodiscard]] virtual std::unique_ptr<Kernel> all_to_all(
      const CollectiveRecord& record, std::vector<std::int64_t> send_counts,
      std::vector<std::int64_t> send_offsets, std::vector<std::int64_t> receive_counts,
      std::vector<std::int64_t> receive_offsets) = 0;

  /// Operands: send, receive. For halo; `sends` and `receives` as Transport::exchange has them,
  /// both empty on a rank that has no part in it.
  [[nodiscard]] virtual std::unique_ptr<Kernel> exchange(const CollectiveRecord& record,
                                                         std::vector<NeighbourBlock> sends,
                                                         std::vector<NeighbourBlock> receives) = 0;

  /// Everything that was made so far, in order.
  [[nodiscard]] const std::vector<CollectiveRecord>& records() const { return records_; }

 protected:
  std::vector<CollectiveRecord> records_;
};

/// Bound to `mesh`'s communicators, which are made as they are asked for: every rank makes the same
/// program at the same time, so that all split in the same order. Mesh and transport must outlive
/// the kernels. A collective that fails throws an `Error` naming its purpose. Each run is entered
/// in `trace`, if there is one, which must outlive the kernels as well.
[[nodiscard]] std::unique_ptr<MeshCollectives> bind_collectives(DeviceMesh& mesh,
                                                                Transport& transport,
                                                                CollectiveTrace* trace = nullptr);

/// For rank `rank` of a mesh that need not be there; the kernels throw when run.
[[nodiscard]] std::unique_ptr<MeshCollectives> plan_collectives(MeshShape mesh, std::int64_t rank);

}  // namespace meshwork

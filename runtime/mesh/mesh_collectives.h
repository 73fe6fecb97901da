// Collectives as kernels, bound to mesh axes and counts when a program is made.
//
// `MeshCollectives` is what lowering books communication through. It makes kernels, and keeps a
// record of each, in order: the records are what `meshwork plan` prints, what the ranks compare
// before the first step, and what a run's counters are held against. Over a mesh that is there the
// kernels are bound to its communicators (`bind_collectives`); for one that is not there,
// `plan_collectives` gives the same records and kernels that cannot be run.
//
// A collective is a value (collectives/collective.h). Its communicator is that of the ranks over
// axes, which are given ascending; they are numbered row-major. Operands: the buffers of the
// collective, send before receive, one if it is in place.
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

/// What a collective is for, as tables and error messages name it.
struct CollectivePurpose {
  std::string phase;  // "forward", "backward", "recompute", "update", "metrics"
  std::string what;   // "d1/kernel gathered", "gradients d2/kernel ... d1/bias"
};

/// Where a program wants a collective, and why.
struct CollectiveUse {
  CollectivePurpose purpose;
  std::vector<Axis> axes;
  std::int64_t global_elements = 0;  // of the tensor or span that it moves: the same on all ranks
  std::string_view name{};           // in plans; empty: as the collective is called
};

struct CollectiveRecord {
  std::string_view collective;  // "all_reduce", as counters have it
  std::string_view name;        // "all_reduce", "permute", "halo"
  CollectivePurpose purpose;
  std::vector<Axis> axes;
  ElementType type = ElementType::float32;
  std::string_view reduction{};  // empty: it only moves
  std::int64_t global_elements = 0;
  std::int64_t bytes_sent = 0;  // by this rank, as elements_sent counts
  // Of an exchange: the other ranks, numbered over the axes, and what they send to this one.
  std::vector<int> sends_to = {}, receives_from = {};
  std::int64_t bytes_received = 0;
  [[nodiscard]] bool is_exchange() const { return !sends_to.empty() || !receives_from.empty(); }
};

/// "all_reduce sum float32 x 2570 over data: gradients ...": equal on all ranks that agree.
[[nodiscard]] std::string describe(const CollectiveRecord& record, const MeshShape& mesh);

class MeshCollectives {
 public:
  virtual ~MeshCollectives() = default;

  [[nodiscard]] virtual const MeshShape& mesh() const = 0;
  [[nodiscard]] virtual std::int64_t rank() const = 0;

  [[nodiscard]] std::unique_ptr<Kernel> book(const CollectiveUse& use,
                                             const Collective& collective);

  /// How long a started collective is under way: beside any other, or waited for before the next
  /// that is brief is started, so that all these take memory of the transport for one.
  enum class UnderWay : std::uint8_t { beside_others, briefly };
  struct StartAndWait {
    std::unique_ptr<Kernel> start, wait;
  };
  /// The same, started by the first kernel and waited for by the second, each with the operands.
  [[nodiscard]] StartAndWait book_started(const CollectiveUse& use, const Collective& collective,
                                          UnderWay under_way = UnderWay::beside_others);

  /// Those of the ranks over `axes` that share memory wait for each other, and see what each has
  /// written there. It sends nothing and leaves no record. No operands.
  [[nodiscard]] virtual std::unique_ptr<Kernel> barrier_of_sharers(
      const std::vector<Axis>& axes, const CollectivePurpose& purpose) = 0;
  /// Brings on what was started, to be put between kernels that run meanwhile; null where that is
  /// of no use. It sends nothing that has no record, and leaves none. No operands.
  [[nodiscard]] virtual std::unique_ptr<Kernel> advance() { return nullptr; }
  /// Everything that was made so far, in order.
  [[nodiscard]] const std::vector<CollectiveRecord>& records() const { return records_; }

 protected:
  [[nodiscard]] virtual std::unique_ptr<Kernel> make(const CollectiveRecord& record,
                                                     const Collective& collective) = 0;
  [[nodiscard]] virtual StartAndWait make_started(const CollectiveRecord& record,
                                                  const Collective& collective,
                                                  UnderWay under_way) = 0;

 private:
  const CollectiveRecord& record(const CollectiveUse& use, const Collective& collective);

  std::vector<CollectiveRecord> records_;
};

/// Bound to `mesh`'s communicators, which are made as they are asked for: every rank makes the same
/// program at the same time, so that all split in the same order. Mesh and transport must outlive
/// the kernels. A collective that fails throws an `Error` naming its purpose. Each run is entered
/// in `trace`, if there is one, which must outlive the kernels as well.
/// `alike`: all ranks book the same, so that each collective is announced as it is made.
[[nodiscard]] std::unique_ptr<MeshCollectives> bind_collectives(DeviceMesh& mesh,
                                                                Transport& transport,
                                                                CollectiveTrace* trace = nullptr,
                                                                bool alike = true);

/// For rank `rank` of a mesh that need not be there; the kernels throw when run.
[[nodiscard]] std::unique_ptr<MeshCollectives> plan_collectives(MeshShape mesh, std::int64_t rank);

}  // namespace meshwork

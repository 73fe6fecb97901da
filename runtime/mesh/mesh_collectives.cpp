#include "runtime/mesh/mesh_collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <initializer_list>
#include <span>

#include "collectives/blocks.h"
#include "collectives/error.h"

namespace meshwork {
namespace {

std::string_view name_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return "sum";
    case Reduction::maximum:
      return "maximum";
    case Reduction::minimum:
      return "minimum";
  }
  return "?";
}

/// A collective in words, and where its runs are entered.
struct Entry {
  std::string description;
  CollectiveTrace* trace = nullptr;
  const std::string* label = nullptr;  // of the trace
  Enqueued* enqueued = nullptr;        // the transport's
  /// Whether its runs enqueue and nothing else. It may change until all collectives are announced.
  std::function<bool()> is_enqueued = [] { return false; };
  const Kernel* begun_by = nullptr;
};

/// What all kernels here have in common: they are entered in the trace, and their errors begin with
/// what the collective is and is for.
class CollectiveKernel : public Kernel {
 public:
  explicit CollectiveKernel(Entry entry) : entry_(std::move(entry)) {}

  void run(void* const* operands) final {
    const bool captured = entry_.enqueued != nullptr && entry_.enqueued->is_capturing();
    const TracedCollective inside(captured ? nullptr : entry_.trace, entry_.label);
    const std::uint64_t before = captured ? entry_.enqueued->captured() : started();
    try {
      communicate(operands);
    } catch (const std::exception& error) {
      fail("{}: {}", entry_.description, error.what());
    }
    operations_ = (captured ? entry_.enqueued->captured() : started()) - before;
    if (!captured) note_enqueued();
  }
  [[nodiscard]] bool is_enqueued() const final { return entry_.is_enqueued(); }
  [[nodiscard]] const Kernel* begun_by() const final { return entry_.begun_by; }
  void note_start() final {
    const TracedCollective inside(entry_.trace, entry_.label);
    if (operations_ > 0) entry_.enqueued->add_captured(operations_);
    note_enqueued();
  }

 protected:
  virtual void communicate(void* const* operands) = 0;

 private:
  [[nodiscard]] std::uint64_t started() const {
    return entry_.enqueued != nullptr ? entry_.enqueued->started() : 0;
  }
  void note_enqueued() {
    if (entry_.trace != nullptr && operations_ > 0) entry_.trace->note_enqueued(started());
  }

  Entry entry_;
  std::uint64_t operations_ = 0;  // that the last run has enqueued
};

/// A collective as a function of the operands.
template <class Communicate>
class BoundKernel final : public CollectiveKernel {
 public:
  BoundKernel(Entry entry, Communicate communicate)
      : CollectiveKernel(std::move(entry)), communicate_(std::move(communicate)) {}

 protected:
  void communicate(void* const* operands) override { communicate_(operands); }

 private:
  Communicate communicate_;
};

/// No collective, so it is entered nowhere: ranks do not do it at the same places.
class AdvanceKernel final : public Kernel {
 public:
  explicit AdvanceKernel(Transport& transport) : transport_(transport) {}
  void run(void* const*) override { transport_.advance(); }

 private:
  Transport& transport_;
};

template <class Communicate>
std::unique_ptr<Kernel> bound(Entry entry, Communicate communicate) {
  return std::make_unique<BoundKernel<Communicate>>(std::move(entry), std::move(communicate));
}

class BoundCollectives final : public MeshCollectives {
 public:
  BoundCollectives(DeviceMesh& mesh, Transport& transport, CollectiveTrace* trace)
      : mesh_(mesh), transport_(transport), trace_(trace) {}

  [[nodiscard]] const MeshShape& mesh() const override { return mesh_.shape(); }
  [[nodiscard]] std::int64_t rank() const override { return mesh_.rank(); }

  std::unique_ptr<Kernel> all_reduce(const CollectiveRecord& record, std::int64_t count) override {
    reserve(record, count);
    const Communicator& communicator = communicator_for(record);
    announce(record, std::span(&count, 1));
    return bound(entry_of(record), [&transport = transport_, &communicator, type = record.type,
                                    reduction = record.reduction, count](void* const* operands) {
      transport.all_reduce(communicator, type, reduction, operands[0], count);
    });
  }

  std::pair<std::unique_ptr<Kernel>, std::unique_ptr<Kernel>> started_all_reduce(
      const CollectiveRecord& record, std::int64_t count, UnderWay under_way) override {
    return started(record, count, under_way, &Transport::start_all_reduce);
  }

  std::pair<std::unique_ptr<Kernel>, std::unique_ptr<Kernel>> started_reduce_in_parts(
      const CollectiveRecord& record, std::int64_t count) override {
    return started(record, count, UnderWay::beside_others, &Transport::start_reduce_in_parts);
  }

  std::unique_ptr<Kernel> barrier_of_sharers(const std::vector<Axis>& axes,
                                             const CollectivePurpose& purpose) override {
    return bound(entry("barrier: " + purpose.what, purpose.phase),
                 [&transport = transport_, &communicator = communicator_over(axes)](void* const*) {
                   transport.barrier_of_sharers(communicator);
                 });
  }

  std::unique_ptr<Kernel> advance() override {
    if (!transport_.wants_advancing()) return nullptr;
    return std::make_unique<AdvanceKernel>(transport_);
  }

  std::unique_ptr<Kernel> reduce_scatter(const CollectiveRecord& record,
                                         std::vector<std::int64_t> counts) override {
    const Communicator& communicator = communicator_for(record);
    check_counts({&counts}, communicator);
    if (record.reduction != Reduction::sum) internal_error("a reduce_scatter that is not a sum");
    announce(record, counts);
    reserve(record, total_of(counts) + counts[static_cast<std::size_t>(communicator.rank())]);
    return bound(entry_of(record), [&transport = transport_, &communicator, type = record.type,
                                    counts = std::move(counts)](void* const* operands) {
      transport.reduce_scatter(communicator, type, operands[0], operands[1], counts);
    });
  }

  std::unique_ptr<Kernel> all_gather(const CollectiveRecord& record,
                                     std::vector<std::int64_t> counts,
                                     std::vector<std::int64_t> offsets) override {
    const Communicator& communicator = communicator_for(record);
    check_counts({&counts, &offsets}, communicator);
    reserve(record,
            extent_of(counts, offsets) + counts[static_cast<std::size_t>(communicator.rank())]);
    return bound(entry_of(record), [&transport = transport_, &communicator, type = record.type,
                                    counts = std::move(counts),
                                    offsets = std::move(offsets)](void* const* operands) {
      transport.all_gather(communicator, type, operands[0], operands[1], counts, offsets);
    });
  }

  std::unique_ptr<Kernel> all_to_all(const CollectiveRecord& record,
                                     std::vector<std::int64_t> send_counts,
                                     std::vector<std::int64_t> send_offsets,
                                     std::vector<std::int64_t> receive_counts,
                                     std::vector<std::int64_t> receive_offsets) override {
    const Communicator& communicator = communicator_for(record);
    check_counts({&send_counts, &send_offsets, &receive_counts, &receive_offsets}, communicator);
    reserve(record, total_of(send_counts) + total_of(receive_counts));
    return bound(entry_of(record),
                 [&transport = transport_, &communicator, type = record.type,
                  send_counts = std::move(send_counts), send_offsets = std::move(send_offsets),
                  receive_counts = std::move(receive_counts),
                  receive_offsets = std::move(receive_offsets)](void* const* operands) {
                   transport.all_to_all(communicator, type, operands[0], send_counts, send_offsets,
                                        operands[1], receive_counts, receive_offsets);
                 });
  }

  std::unique_ptr<Kernel> exchange(const CollectiveRecord& record,
                                   std::vector<NeighbourBlock> sends,
                                   std::vector<NeighbourBlock> receives) override {
    const Communicator& communicator = communicator_for(record);
    std::int64_t count = 0;
    for (const NeighbourBlock& block : sends) count += block.count;
    for (const NeighbourBlock& block : receives) count += block.count;
    reserve(record, count);
    return bound(entry_of(record), [&transport = transport_, &communicator, type = record.type,
                                    sends = std::move(sends),
                                    receives = std::move(receives)](void* const* operands) {
      transport.exchange(communicator, type, operands[0], sends, operands[1], receives);
    });
  }

 private:
  /// How the transport starts one of two halves.
  using Start = Pending (Transport::*)(const Communicator&, ElementType, Reduction, void*,
                                       std::int64_t);
  std::pair<std::unique_ptr<Kernel>, std::unique_ptr<Kernel>> started(
      const CollectiveRecord& record, std::int64_t count, UnderWay under_way, Start start_it) {
    const std::int64_t bytes = count * element_bytes(record.type);
    if (under_way == UnderWay::briefly) {
      started_bytes_.front() = std::max(started_bytes_.front(), bytes);
    } else {
      started_bytes_.push_back(bytes);
    }
    transport_.reserve(0, std::span(started_bytes_).subspan(started_bytes_.front() > 0 ? 0 : 1));
    const Communicator& communicator = communicator_for(record);
    announce(record, std::span(&count, 1));
    const auto pending = std::make_shared<Pending>();
    auto start =
        bound(entry_of(record, "start "),
              [&transport = transport_, &communicator, type = record.type,
               reduction = record.reduction, count, pending, start_it](void* const* operands) {
                if (pending->active())
                  internal_error("a collective that is under way is started again");
                *pending = (transport.*start_it)(communicator, type, reduction, operands[0], count);
              });
    Entry of_wait = entry_of(record, "wait for ");
    of_wait.begun_by = start.get();
    auto wait = bound(std::move(of_wait), [pending](void* const*) { pending->wait(); });
    return {std::move(start), std::move(wait)};
  }

  /// Of a collective whose communicator is prepared.
  [[nodiscard]] Entry entry_of(const CollectiveRecord& record, const char* prefix = "") const {
    Entry made = entry(describe(record, mesh()), record.purpose.phase, prefix);
    made.enqueued = transport_.enqueued();
    made.is_enqueued = [&transport = transport_, &communicator = mesh_.communicator(record.axes),
                        type = record.type, reduction = record.reduction] {
      return transport.enqueues(communicator, type, reduction);
    };
    return made;
  }
  [[nodiscard]] Entry entry(std::string description, const std::string& phase,
                            const char* prefix = "") const {
    Entry made{std::move(description), trace_, nullptr};
    if (trace_ != nullptr) {
      made.label = trace_->label(fmt::format("{}{} ({})", prefix, made.description, phase));
    }
    return made;
  }

  const Communicator& communicator_over(const std::vector<Axis>& axes) {
    mesh_.prepare(axes);
    const Communicator& communicator = mesh_.communicator(axes);
    transport_.prepare(communicator);
    return communicator;
  }
  const Communicator& communicator_for(const CollectiveRecord& record) {
    records_.push_back(record);
    return communicator_over(record.axes);
  }

  void announce(const CollectiveRecord& record, std::span<const std::int64_t> counts) {
    if (record.reduction == Reduction::sum && record.type == ElementType::float32) {
      transport_.prepare_sum(mesh_.communicator(record.axes), counts);
    }
  }

  /// For a collective of `elements`, sent and received together.
  void reserve(const CollectiveRecord& record, std::int64_t elements) {
    transport_.reserve(elements * element_bytes(record.type));
  }

  static void check_counts(std::initializer_list<const std::vector<std::int64_t>*> lists,
                           const Communicator& communicator) {
    for (const std::vector<std::int64_t>* list : lists) {
      if (list->size() != static_cast<std::size_t>(communicator.size())) {
        internal_error(fmt::format("a collective of {} ranks with {} counts", communicator.size(),
                                   list->size()));
      }
    }
  }

  DeviceMesh& mesh_;
  Transport& transport_;
  CollectiveTrace* trace_;
  // Of what may be under way at once: the largest of those that are so briefly, then the others.
  std::vector<std::int64_t> started_bytes_{0};
};

class PlannedCollectives final : public MeshCollectives {
 public:
  PlannedCollectives(MeshShape mesh, std::int64_t rank) : mesh_(std::move(mesh)), rank_(rank) {}

  [[nodiscard]] const MeshShape& mesh() const override { return mesh_; }
  [[nodiscard]] std::int64_t rank() const override { return rank_; }

  std::unique_ptr<Kernel> all_reduce(const CollectiveRecord& record, std::int64_t) override {
    return planned(record);
  }
  std::pair<std::unique_ptr<Kernel>, std::unique_ptr<Kernel>> started_all_reduce(
      const CollectiveRecord& record, std::int64_t, UnderWay) override {
    auto start = planned(record);
    return {std::move(start), kernel(describe(record, mesh_))};
  }
  std::pair<std::unique_ptr<Kernel>, std::unique_ptr<Kernel>> started_reduce_in_parts(
      const CollectiveRecord& record, std::int64_t count) override {
    return started_all_reduce(record, count, UnderWay::beside_others);
  }
  std::unique_ptr<Kernel> barrier_of_sharers(const std::vector<Axis>&,
                                             const CollectivePurpose& purpose) override {
    return kernel("barrier: " + purpose.what);
  }
  std::unique_ptr<Kernel> reduce_scatter(const CollectiveRecord& record,
                                         std::vector<std::int64_t>) override {
    return planned(record);
  }
  std::unique_ptr<Kernel> all_gather(const CollectiveRecord& record, std::vector<std::int64_t>,
                                     std::vector<std::int64_t>) override {
    return planned(record);
  }
  std::unique_ptr<Kernel> all_to_all(const CollectiveRecord& record, std::vector<std::int64_t>,
                                     std::vector<std::int64_t>, std::vector<std::int64_t>,
                                     std::vector<std::int64_t>) override {
    return planned(record);
  }
  std::unique_ptr<Kernel> exchange(const CollectiveRecord& record, std::vector<NeighbourBlock>,
                                   std::vector<NeighbourBlock>) override {
    return planned(record);
  }

 private:
  std::unique_ptr<Kernel> planned(const CollectiveRecord& record) {
    records_.push_back(record);
    return kernel(describe(record, mesh_));
  }
  [[nodiscard]] std::unique_ptr<Kernel> kernel(std::string description) const {
    return bound({std::move(description)}, [mesh = to_string(mesh_)](void* const*) {
      fail("the program was made to show a plan for the mesh {}, not to be run", mesh);
    });
  }

  MeshShape mesh_;
  std::int64_t rank_;
};

}  // namespace

std::string_view name_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce:
      return "all_reduce";
    case CollectiveKind::reduce_scatter:
      return "reduce_scatter";
    case CollectiveKind::all_gather:
      return "all_gather";
    case CollectiveKind::all_to_all:
      return "all_to_all";
    case CollectiveKind::permute:
      return "permute";
    case CollectiveKind::halo:
      return "halo";
  }
  return "?";
}

std::string describe(const CollectiveRecord& record, const MeshShape& mesh) {
  const bool reduces =
      record.kind == CollectiveKind::all_reduce || record.kind == CollectiveKind::reduce_scatter;
  std::string axes;
  for (const Axis axis : record.axes) axes += (axes.empty() ? "" : "+") + mesh.name(axis);
  return fmt::format("{}{}{} {} x {} over {}: {}", name_of(record.kind), reduces ? " " : "",
                     reduces ? name_of(record.reduction) : "", name_of(record.type),
                     record.global_elements, axes, record.purpose.what);
}

std::unique_ptr<MeshCollectives> bind_collectives(DeviceMesh& mesh, Transport& transport,
                                                  CollectiveTrace* trace) {
  return std::make_unique<BoundCollectives>(mesh, transport, trace);
}

std::unique_ptr<MeshCollectives> plan_collectives(MeshShape mesh, std::int64_t rank) {
  return std::make_unique<PlannedCollectives>(std::move(mesh), rank);
}

}  // namespace meshwork

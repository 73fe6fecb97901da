#include "runtime/mesh/mesh_collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <set>
#include <span>

#include "collectives/blocks.h"
#include "collectives/error.h"

namespace meshwork {
namespace {

/// A collective in words, and where its runs are entered.
struct Entry {
  std::string description;
  CollectiveTrace* trace = nullptr;
  const std::string* label = nullptr;  // of the trace
  Enqueued* enqueued = nullptr;        // the transport's
  std::shared_ptr<const CompiledCollective> compiled{};
  const Kernel* begun_by = nullptr;
};

/// A collective as a function of the operands. It is entered in the trace, and its errors begin
/// with what it is and is for.
template <class Communicate>
class CollectiveKernel final : public Kernel {
 public:
  CollectiveKernel(Entry entry, Communicate communicate)
      : entry_(std::move(entry)), communicate_(std::move(communicate)) {}

  void run(void* const* operands) override {
    const bool captured = entry_.enqueued != nullptr && entry_.enqueued->is_capturing();
    const TracedCollective inside(captured ? nullptr : entry_.trace, entry_.label);
    const std::uint64_t before = captured ? entry_.enqueued->captured() : started();
    try {
      communicate_(operands);
    } catch (const std::exception&) {
      rethrow_from(entry_.description);
    }
    operations_ = (captured ? entry_.enqueued->captured() : started()) - before;
    if (!captured) note_enqueued();
  }
  [[nodiscard]] bool is_enqueued() const override {
    return entry_.compiled != nullptr && entry_.compiled->is_enqueued();
  }
  [[nodiscard]] const Kernel* begun_by() const override { return entry_.begun_by; }
  void note_start() override {
    const TracedCollective inside(entry_.trace, entry_.label);
    if (operations_ > 0) entry_.enqueued->add_captured(operations_);
    note_enqueued();
  }

 private:
  [[nodiscard]] std::uint64_t started() const {
    return entry_.enqueued != nullptr ? entry_.enqueued->started() : 0;
  }
  void note_enqueued() {
    if (entry_.trace != nullptr && operations_ > 0) entry_.trace->note_enqueued(started());
  }

  Entry entry_;
  Communicate communicate_;
  std::uint64_t operations_ = 0;  // that the last run has enqueued
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
  return std::make_unique<CollectiveKernel<Communicate>>(std::move(entry), std::move(communicate));
}

class BoundCollectives final : public MeshCollectives {
 public:
  BoundCollectives(DeviceMesh& mesh, Transport& transport, CollectiveTrace* trace, bool alike)
      : mesh_(mesh), transport_(transport), trace_(trace), alike_(alike) {}

  [[nodiscard]] const MeshShape& mesh() const override { return mesh_.shape(); }
  [[nodiscard]] std::int64_t rank() const override { return mesh_.rank(); }

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

 protected:
  std::unique_ptr<Kernel> make(const CollectiveRecord& record,
                               const Collective& collective) override {
    const std::shared_ptr<CompiledCollective> compiled = compile(record, collective, Use::at_once);
    const Extents extents = extents_of(collective, mesh_.communicator(record.axes).rank());
    transport_.reserve((extents.send + extents.receive) * element_bytes(record.type));
    return bound(entry_of(record, compiled),
                 [compiled = compiled.get(), receive = is_in_place(collective) ? 0 : 1](
                     void* const* operands) { compiled->run(operands[0], operands[receive]); });
  }

  StartAndWait make_started(const CollectiveRecord& record, const Collective& collective,
                            UnderWay under_way) override {
    const std::shared_ptr<CompiledCollective> compiled = compile(record, collective, Use::started);
    const Extents extents = extents_of(collective, mesh_.communicator(record.axes).rank());
    const std::int64_t bytes = extents.receive * element_bytes(record.type);
    if (std::holds_alternative<AllGather>(collective)) {
      // It is under way in its own buffers, or done at once.
      transport_.reserve(extents.send * element_bytes(record.type) + bytes);
    } else if (under_way == UnderWay::briefly) {
      started_bytes_.front() = std::max(started_bytes_.front(), bytes);
    } else {
      started_bytes_.push_back(bytes);
    }
    transport_.reserve(0, std::span(started_bytes_).subspan(started_bytes_.front() > 0 ? 0 : 1));
    const auto pending = std::make_shared<Pending>();
    auto start = bound(
        entry_of(record, compiled, "start "),
        [compiled, pending, receive = is_in_place(collective) ? 0 : 1](void* const* operands) {
          if (pending->active()) {
            internal_error("a collective that is under way is started again");
          }
          *pending = Pending(compiled, operands[0], operands[receive]);
        });
    Entry of_wait = entry_of(record, compiled, "wait for ");
    of_wait.begun_by = start.get();
    auto wait = bound(std::move(of_wait), [pending](void* const*) { pending->wait(); });
    return {std::move(start), std::move(wait)};
  }

 private:
  [[nodiscard]] std::shared_ptr<CompiledCollective> compile(const CollectiveRecord& record,
                                                            const Collective& collective, Use use) {
    const Communicator& communicator = communicator_over(record.axes);
    const TracedCollective inside(TracePoint(trace_, "making of " + describe(record, mesh())));
    if (alike_) transport_.announce(communicator, collective);
    return transport_.compile(communicator, collective, use);
  }

  [[nodiscard]] Entry entry_of(const CollectiveRecord& record,
                               std::shared_ptr<const CompiledCollective> compiled,
                               const char* prefix = "") const {
    Entry made = entry(describe(record, mesh()), record.purpose.phase, prefix);
    made.enqueued = transport_.enqueued();
    made.compiled = std::move(compiled);
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
    if (!prepared_.contains(axes)) {
      const TracedCollective inside(
          TracePoint(trace_, "making of a communicator over " + mesh().names(axes)));
      mesh_.prepare(axes);
      transport_.prepare(mesh_.communicator(axes));
      prepared_.insert(axes);
    }
    return mesh_.communicator(axes);
  }

  DeviceMesh& mesh_;
  Transport& transport_;
  CollectiveTrace* trace_;
  bool alike_;
  std::set<std::vector<Axis>> prepared_;
  // Of what may be under way at once: the largest of those that are so briefly, then the others.
  std::vector<std::int64_t> started_bytes_{0};
};

class PlannedCollectives final : public MeshCollectives {
 public:
  PlannedCollectives(MeshShape mesh, std::int64_t rank) : mesh_(std::move(mesh)), rank_(rank) {}

  [[nodiscard]] const MeshShape& mesh() const override { return mesh_; }
  [[nodiscard]] std::int64_t rank() const override { return rank_; }

  std::unique_ptr<Kernel> barrier_of_sharers(const std::vector<Axis>&,
                                             const CollectivePurpose& purpose) override {
    return kernel("barrier: " + purpose.what);
  }

 protected:
  std::unique_ptr<Kernel> make(const CollectiveRecord& record, const Collective&) override {
    return kernel(describe(record, mesh_));
  }
  StartAndWait make_started(const CollectiveRecord& record, const Collective&, UnderWay) override {
    return {kernel(describe(record, mesh_)), kernel(describe(record, mesh_))};
  }

 private:
  [[nodiscard]] std::unique_ptr<Kernel> kernel(std::string description) const {
    return bound({std::move(description)}, [mesh = to_string(mesh_)](void* const*) {
      fail("the program was made to show a plan for the mesh {}, not to be run", mesh);
    });
  }

  MeshShape mesh_;
  std::int64_t rank_;
};

}  // namespace

const CollectiveRecord& MeshCollectives::record(const CollectiveUse& use,
                                                const Collective& collective) {
  const int ranks = static_cast<int>(mesh().size_over(use.axes));
  const int own = static_cast<int>(mesh().index_over(rank(), use.axes));
  const ElementType type = type_of(collective);
  const Reduction* const reduction = reduction_of(collective);
  records_.push_back({.collective = name_of(collective),
                      .name = use.name.empty() ? name_of(collective) : use.name,
                      .purpose = use.purpose,
                      .axes = use.axes,
                      .type = type,
                      .reduction = reduction != nullptr ? name_of(*reduction) : std::string_view(),
                      .global_elements = use.global_elements,
                      .bytes_sent = elements_sent(collective, own, ranks) * element_bytes(type)});
  if (const auto* const exchange = std::get_if<Exchange>(&collective)) {
    for (const NeighbourBlock& block : exchange->sends) {
      records_.back().sends_to.push_back(block.rank);
    }
    for (const NeighbourBlock& block : exchange->receives) {
      records_.back().receives_from.push_back(block.rank);
      records_.back().bytes_received += block.count * element_bytes(type);
    }
  }
  return records_.back();
}

std::unique_ptr<Kernel> MeshCollectives::book(const CollectiveUse& use,
                                              const Collective& collective) {
  return make(record(use, collective), collective);
}

MeshCollectives::StartAndWait MeshCollectives::book_started(const CollectiveUse& use,
                                                            const Collective& collective,
                                                            UnderWay under_way) {
  return make_started(record(use, collective), collective, under_way);
}

std::string describe(const CollectiveRecord& record, const MeshShape& mesh) {
  return fmt::format("{}{}{} {} x {} over {}: {}", record.name, record.reduction.empty() ? "" : " ",
                     record.reduction, name_of(record.type), record.global_elements,
                     mesh.names(record.axes), record.purpose.what);
}

std::unique_ptr<MeshCollectives> bind_collectives(DeviceMesh& mesh, Transport& transport,
                                                  CollectiveTrace* trace, bool alike) {
  return std::make_unique<BoundCollectives>(mesh, transport, trace, alike);
}

std::unique_ptr<MeshCollectives> plan_collectives(MeshShape mesh, std::int64_t rank) {
  return std::make_unique<PlannedCollectives>(std::move(mesh), rank);
}

}  // namespace meshwork

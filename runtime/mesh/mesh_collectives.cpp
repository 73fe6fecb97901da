#include "runtime/mesh/mesh_collectives.h"

#include <fmt/format.h>

#include <exception>

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

/// What all kernels here have in common: their errors begin with what the collective is and is for.
class CollectiveKernel : public Kernel {
 public:
  explicit CollectiveKernel(std::string description) : description_(std::move(description)) {}

  void run(void* const* operands) final {
    try {
      communicate(operands);
    } catch (const std::exception& error) {
      fail("{}: {}", description_, error.what());
    }
  }

 protected:
  virtual void communicate(void* const* operands) = 0;

 private:
  std::string description_;
};

/// A collective as a function of the operands.
template <class Communicate>
class BoundKernel final : public CollectiveKernel {
 public:
  BoundKernel(std::string description, Communicate communicate)
      : CollectiveKernel(std::move(description)), communicate_(std::move(communicate)) {}

 protected:
  void communicate(void* const* operands) override { communicate_(operands); }

 private:
  Communicate communicate_;
};

template <class Communicate>
std::unique_ptr<Kernel> bound(std::string description, Communicate communicate) {
  return std::make_unique<BoundKernel<Communicate>>(std::move(description), std::move(communicate));
}

class BoundCollectives final : public MeshCollectives {
 public:
  BoundCollectives(DeviceMesh& mesh, Transport& transport) : mesh_(mesh), transport_(transport) {}

  [[nodiscard]] const MeshShape& mesh() const override { return mesh_.shape(); }
  [[nodiscard]] std::int64_t rank() const override { return mesh_.rank(); }

  std::unique_ptr<Kernel> all_reduce(const CollectiveRecord& record, std::int64_t count) override {
    return bound(describe(record, mesh()),
                 [&transport = transport_, &communicator = communicator_for(record),
                  type = record.type, reduction = record.reduction, count](void* const* operands) {
                   transport.all_reduce(communicator, type, reduction, operands[0], count);
                 });
  }

  std::pair<std::unique_ptr<Kernel>, std::unique_ptr<Kernel>> started_all_reduce(
      const CollectiveRecord& record, std::int64_t count) override {
    const auto pending = std::make_shared<Pending>();
    const std::string description = describe(record, mesh());
    auto start =
        bound(description, [&transport = transport_, &communicator = communicator_for(record),
                            type = record.type, reduction = record.reduction, count,
                            pending](void* const* operands) {
          if (pending->active()) internal_error("a collective that is under way is started again");
          *pending = transport.start_all_reduce(communicator, type, reduction, operands[0], count);
        });
    auto wait = bound(description, [pending](void* const*) { pending->wait(); });
    return {std::move(start), std::move(wait)};
  }

  std::unique_ptr<Kernel> reduce_scatter(const CollectiveRecord& record,
                                         std::vector<std::int64_t> counts) override {
    const Communicator& communicator = communicator_for(record);
    check_counts({&counts}, communicator);
    if (record.reduction != Reduction::sum) internal_error("a reduce_scatter that is not a sum");
    return bound(describe(record, mesh()),
                 [&transport = transport_, &communicator, type = record.type,
                  counts = std::move(counts)](void* const* operands) {
                   transport.reduce_scatter(communicator, type, operands[0], operands[1], counts);
                 });
  }

  std::unique_ptr<Kernel> all_gather(const CollectiveRecord& record,
                                     std::vector<std::int64_t> counts,
                                     std::vector<std::int64_t> offsets) override {
    const Communicator& communicator = communicator_for(record);
    check_counts({&counts, &offsets}, communicator);
    return bound(describe(record, mesh()), [&transport = transport_, &communicator,
                                            type = record.type, counts = std::move(counts),
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
    return bound(describe(record, mesh()),
                 [&transport = transport_, &communicator, type = record.type,
                  send_counts = std::move(send_counts), send_offsets = std::move(send_offsets),
                  receive_counts = std::move(receive_counts),
                  receive_offsets = std::move(receive_offsets)](void* const* operands) {
                   transport.all_to_all(communicator, type, operands[0], send_counts, send_offsets,
                                        operands[1], receive_counts, receive_offsets);
                 });
  }

 private:
  const Communicator& communicator_for(const CollectiveRecord& record) {
    mesh_.prepare(record.axes);
    records_.push_back(record);
    return mesh_.communicator(record.axes);
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
      const CollectiveRecord& record, std::int64_t) override {
    auto start = planned(record);
    return {std::move(start), kernel(record)};
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

 private:
  std::unique_ptr<Kernel> planned(const CollectiveRecord& record) {
    records_.push_back(record);
    return kernel(record);
  }
  [[nodiscard]] std::unique_ptr<Kernel> kernel(const CollectiveRecord& record) const {
    return bound(describe(record, mesh_), [mesh = to_string(mesh_)](void* const*) {
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

std::unique_ptr<MeshCollectives> bind_collectives(DeviceMesh& mesh, Transport& transport) {
  return std::make_unique<BoundCollectives>(mesh, transport);
}

std::unique_ptr<MeshCollectives> plan_collectives(MeshShape mesh, std::int64_t rank) {
  return std::make_unique<PlannedCollectives>(std::move(mesh), rank);
}

}  // namespace meshwork

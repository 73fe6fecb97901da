#include "runtime/mesh/sharded_tensor.h"

#include <algorithm>
#include <cstring>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "runtime/mesh/lower_redistribution.h"
#include "runtime/shape/block_parts.h"

namespace meshwork {
namespace {

// The root fills or empties this much at a time, so that it never holds a tensor twice.
constexpr std::int64_t bytes_at_a_time = std::int64_t{64} << 20;

/// Whether `rank` is the first along the axes that replicate the tensor, and along those that it is
/// partial over: one rank for each distinct block.
bool represents_block(const Layout& layout, const MeshShape& mesh, std::int64_t rank) {
  return owns_block(layout.without_partial(), mesh, rank);
}

std::int64_t block_bytes(const Layout& layout, const Shape& shape, const MeshShape& mesh,
                         std::int64_t rank, ElementType type) {
  return size_of(block_of(layout, shape, mesh, rank)) * element_bytes(type);
}

/// Ranks whose blocks travel together.
struct Round {
  std::int64_t begin = 0, end = 0;
};

/// Cuts all ranks into rounds. The same on all ranks: it follows from sizes alone.
std::vector<Round> rounds_of(const Layout& layout, const Shape& shape, const MeshShape& mesh,
                             ElementType type) {
  std::vector<Round> rounds{{0, 0}};
  std::int64_t bytes = 0;
  for (std::int64_t rank = 0; rank < mesh.rank_count(); ++rank) {
    if (represents_block(layout, mesh, rank)) {
      const std::int64_t more = block_bytes(layout, shape, mesh, rank, type);
      if (bytes > 0 && bytes + more > bytes_at_a_time) {
        rounds.push_back({rank, rank});
        bytes = 0;
      }
      bytes += more;
    }
    rounds.back().end = rank + 1;
  }
  return rounds;
}

/// Copies `block` between a whole row-major tensor and a block of its own. `Whole` and `Part` are
/// byte pointers, one of them to constants.
template <class Whole, class Part, class Copy>
void for_each_run(const Shape& shape, const Block& block, std::int64_t size, Whole whole, Part part,
                  const Copy& copy) {
  if (size_of(block) == 0) return;
  const std::size_t dimensions = shape.size();
  const std::int64_t run = dimensions == 0 ? size : block.back().length() * size;
  Shape index;
  for (const Range& range : block) index.push_back(range.begin);
  for (;;) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < dimensions; ++i) offset = offset * shape[i] + index[i];
    copy(whole + offset * size, part, static_cast<std::size_t>(run));
    part += run;
    std::size_t dimension = dimensions == 0 ? 0 : dimensions - 1;
    while (dimension > 0 && ++index[dimension - 1] == block[dimension - 1].end) {
      index[dimension - 1] = block[dimension - 1].begin;
      --dimension;
    }
    if (dimension == 0) return;
  }
}

// Every function that all ranks call begins with it: where calls are checked, ends on all ranks
// unless they make this one, on a tensor of this shape and layout.
void begin_call(const DeviceMesh& mesh, const char* call, const Shape& shape, const Layout& layout,
                Settings more = {}) {
  if (!mesh.checks_calls()) return;
  more.insert(more.begin(), {setting("shape", to_string(shape)),
                             setting("layout", to_string(layout, mesh.shape()))});
  mesh.require_same_call(std::string("ShardedTensor::") + call, more);
}

}  // namespace

ShardedTensor::ShardedTensor(const MeshContext& context, ElementType type, Shape shape,
                             Layout layout)
    : device_(&context.device),
      mesh_(&context.mesh),
      transport_(&context.transport),
      type_(type),
      shape_(std::move(shape)),
      layout_(std::move(layout)) {
  if (layout_.dimensions.size() != shape_.size()) {
    fail("a tensor of shape {} cannot lie as {}: it has {} dimensions, the layout {}",
         to_string(shape_), to_string(layout_, context.mesh.shape()), shape_.size(),
         layout_.dimensions.size());
  }
  block_ = block_of(layout_, shape_, context.mesh.shape(), context.mesh.rank());
  memory_ = context.device.allocate(local_count() * element_bytes(type_));
}

ShardedTensor ShardedTensor::scatter(const MeshContext& context, ElementType type, Shape shape,
                                     Layout layout, const void* whole, int root) {
  begin_call(context.mesh, "scatter", shape, layout, {setting("root", root)});
  ShardedTensor tensor(context, type, std::move(shape), std::move(layout));
  const MeshShape& mesh = context.mesh.shape();
  const std::int64_t rank = context.mesh.rank();
  const auto ranks = static_cast<std::size_t>(mesh.rank_count());
  const bool represents = represents_block(tensor.layout_, mesh, rank);

  for (const Round& round : rounds_of(tensor.layout_, tensor.shape_, mesh, type)) {
    std::vector<std::int64_t> send_counts(ranks, 0), send_offsets(ranks, 0);
    std::vector<std::int64_t> receive_counts(ranks, 0);
    const std::vector<std::int64_t> receive_offsets(ranks, 0);
    std::vector<std::byte> sent;
    together(context.mesh.all(), [&] {
      if (rank != root) return;
      std::vector<Block> blocks;
      std::int64_t elements = 0;
      for (std::int64_t peer = round.begin; peer < round.end; ++peer) {
        if (!represents_block(tensor.layout_, mesh, peer)) continue;
        blocks.push_back(block_of(tensor.layout_, tensor.shape_, mesh, peer));
        send_counts[peer] = size_of(blocks.back());
        send_offsets[peer] = elements;
        elements += send_counts[peer];
      }
      sent.resize(static_cast<std::size_t>(elements * element_bytes(type)));
      std::byte* at = sent.data();
      for (const Block& block : blocks) {
        const std::int64_t count = size_of(block);
        for_each_run(tensor.shape_, block, element_bytes(type),
                     static_cast<const std::byte*>(whole), at,
                     [](const std::byte* from, std::byte* to, std::size_t bytes) {
                       std::memcpy(to, from, bytes);
                     });
        at += count * element_bytes(type);
      }
    });
    if (represents && rank >= round.begin && rank < round.end) {
      receive_counts[root] = tensor.local_count();
    }
    context.transport.run(
        context.mesh.all(),
        AllToAll{type, send_counts, send_offsets, receive_counts, receive_offsets}, sent.data(),
        tensor.memory_.data());
  }

  // From the first rank along the replicating axes to the others, where there is anything.
  std::vector<Axis> replicating;
  for (Axis axis = 0; axis < mesh.axis_count(); ++axis) {
    if (mesh.size(axis) > 1 && tensor.layout_.replicates(axis)) replicating.push_back(axis);
  }
  if (replicating.empty()) return tensor;
  context.mesh.prepare(replicating);
  if (mesh.index_over(rank, tensor.layout_.partial) == 0 && tensor.local_count() > 0) {
    context.transport.run(context.mesh.communicator(replicating),
                          Broadcast{type, tensor.local_count(), 0}, tensor.memory_.data());
  }
  return tensor;
}

void gather_blocks(const MeshContext& context, ElementType type, const Shape& shape,
                   const Layout& layout, const void* block, void* whole, int root) {
  const MeshShape& mesh = context.mesh.shape();
  const std::int64_t rank = context.mesh.rank();
  const std::int64_t size = element_bytes(type);
  const std::int64_t bytes = element_count(shape) * size;
  if (mesh.size_over(layout.splitting_axes()) == 1 && layout.places.empty()) {
    if (rank == root) context.device.copy_out(whole, block, bytes);
    return;
  }
  // Blocks travel in slices of their first dimension, of all ranks at once.
  const auto ranks = static_cast<std::size_t>(mesh.rank_count());
  const std::int64_t slices = std::max<std::int64_t>(1, (bytes - 1) / bytes_at_a_time + 1);
  for (std::int64_t slice = 0; slice < slices; ++slice) {
    const auto rows_of = [&](const Block& of) {
      return block_range(of[0].length(), slices, slice);
    };
    const auto slice_of = [&](Block of) {
      const Range rows = rows_of(of);
      of[0] = {of[0].begin + rows.begin, of[0].begin + rows.end};
      return of;
    };
    std::vector<std::int64_t> send_counts(ranks, 0), send_offsets(ranks, 0);
    std::vector<std::int64_t> receive_counts(ranks, 0), receive_offsets(ranks, 0);
    if (represents_block(layout, mesh, rank)) {
      const Block own = block_of(layout, shape, mesh, rank);
      send_counts[root] = size_of(slice_of(own));
      if (send_counts[root] > 0) {
        send_offsets[root] = size_of(own) / own[0].length() * rows_of(own).begin;
      }
    }
    std::vector<std::byte> received;
    if (rank == root) {
      std::int64_t elements = 0;
      for (std::int64_t peer = 0; peer < mesh.rank_count(); ++peer) {
        if (!represents_block(layout, mesh, peer)) continue;
        receive_counts[peer] = size_of(slice_of(block_of(layout, shape, mesh, peer)));
        receive_offsets[peer] = elements;
        elements += receive_counts[peer];
      }
      received.resize(static_cast<std::size_t>(elements * size));
    }
    context.transport.run(
        context.mesh.all(),
        AllToAll{type, send_counts, send_offsets, receive_counts, receive_offsets}, block,
        received.data());
    for (std::int64_t peer = 0; rank == root && peer < mesh.rank_count(); ++peer) {
      if (receive_counts[peer] == 0) continue;
      for_each_run(shape, slice_of(block_of(layout, shape, mesh, peer)), size,
                   static_cast<std::byte*>(whole), received.data() + receive_offsets[peer] * size,
                   [](std::byte* to, const std::byte* from, std::size_t count) {
                     std::memcpy(to, from, count);
                   });
    }
  }
}

void ShardedTensor::gather(void* whole, int root) const {
  begin_call(*mesh_, "gather", shape_, layout_, {setting("root", root)});
  if (!layout_.partial.empty()) {
    return redistributed(layout_.without_partial()).gather(whole, root);
  }
  gather_blocks(context(), type_, shape_, layout_, memory_.data(), whole, root);
}

void ShardedTensor::gather(void* whole) const {
  begin_call(*mesh_, "gather", shape_, layout_);
  const ShardedTensor replicated = redistributed(Layout::replicated(shape_.size()));
  device_->copy_out(whole, replicated.data(), element_count(shape_) * element_bytes(type_));
}

void ShardedTensor::redistribute(const Layout& layout) {
  if (layout == layout_) return;
  *this = redistributed(layout);
}

ShardedTensor ShardedTensor::redistributed(const Layout& layout) const {
  const MeshShape& mesh = mesh_->shape();
  begin_call(*mesh_, "redistribute", shape_, layout_, {setting("to", to_string(layout, mesh))});
  ShardedTensor next(context(), type_, shape_, layout);
  const std::vector<RedistributionStep> steps = plan_redistribution(layout_, layout, shape_, mesh);
  if (steps.empty()) {
    next.memory_ = clone().memory_;
    return next;
  }
  ProgramBuilder builder(*device_);
  const std::int64_t bytes = element_bytes(type_);
  const Buffer before = builder.external(data(), local_count() * bytes, "the tensor before");
  const Buffer after =
      builder.external(next.data(), next.local_count() * bytes, "the tensor after");
  const auto collectives = bind_collectives(*mesh_, *transport_);
  const CollectivePurpose purpose{
      .phase = "redistribution",
      .what = fmt::format("a tensor of shape {} from {} to {}", to_string(shape_),
                          to_string(layout_, mesh), to_string(layout, mesh))};
  (void)lower_redistribution(builder, *collectives, steps, shape_, type_, before, Operand(after),
                             purpose);
  Program program = builder.finish();
  program.run();
  device_->synchronize();
  return next;
}

ShardedTensor ShardedTensor::clone() const {
  ShardedTensor copy(context(), type_, shape_, layout_);
  std::vector<std::byte> values(static_cast<std::size_t>(local_count() * element_bytes(type_)));
  device_->copy_out(values.data(), memory_.data(), static_cast<std::int64_t>(values.size()));
  device_->copy_in(copy.memory_.data(), values.data(), std::ssize(values));
  return copy;
}

}  // namespace meshwork

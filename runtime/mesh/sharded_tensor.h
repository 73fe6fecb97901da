// ShardedTensor: a tensor spread over a mesh. Its global shape and layout, the same on all ranks,
// and this rank's block in device memory.
//
// Blocks are row-major and hold what block_of (layout.h) says. Where the layout is partial over
// axes, the tensor is the sum of the blocks of the ranks along them.
//
// Everything here that moves data is collective over the mesh: every rank calls it, in the same
// order, with the same arguments but for what only the root has; DeviceMesh says where that is
// checked. It is for setting up, reading and
// writing, not for the step, whose redistributions are part of its program.
#pragma once

#include <cstdint>

#include "collectives/transport.h"
#include "runtime/device/device.h"
#include "runtime/mesh/device_mesh.h"
#include "runtime/mesh/redistribution.h"

namespace meshwork {

/// What sharded tensors live on and move through. All three outlive the tensors.
struct MeshContext {
  Device& device;
  DeviceMesh& mesh;
  Transport& transport;
};

/// Writes a tensor of `shape`, which lies by `layout` without partial sums and of which each rank
/// has its block in device memory at `block`, whole and row-major to `whole` in the host memory of
/// rank `root`; elsewhere `whole` is ignored. No more than 64 MiB, or one row of each block, are in
/// the root's memory besides. Collective over the mesh; needs no communicator but that of all.
void gather_blocks(const MeshContext& context, ElementType type, const Shape& shape,
                   const Layout& layout, const void* block, void* whole, int root);

class ShardedTensor {
 public:
  /// A tensor of zeros. Not collective. Throws `Error` if `layout` does not fit `shape`.
  ShardedTensor(const MeshContext& context, ElementType type, Shape shape, Layout layout);

  /// A tensor that rank `root` of the mesh has whole, row-major, in host memory; `whole` is read
  /// there only. Each distinct block leaves the root once; its replicas get it from each other. No
  /// more than a few blocks, or 64 MiB, are in the root's memory besides. Collective.
  [[nodiscard]] static ShardedTensor scatter(const MeshContext& context, ElementType type,
                                             Shape shape, Layout layout, const void* whole,
                                             int root = 0);

  /// Writes the whole tensor, row-major, to `whole` in the host memory of rank `root`; elsewhere
  /// `whole` is ignored. A partial sum is added up. Collective.
  void gather(void* whole, int root) const;
  /// The same on every rank. Collective.
  void gather(void* whole) const;

  /// Brings the tensor to `layout`, by the steps of plan_redistribution and with its errors.
  /// Collective.
  void redistribute(const Layout& layout);
  /// The same, as a tensor of its own. Collective.
  [[nodiscard]] ShardedTensor redistributed(const Layout& layout) const;

  /// A copy with memory of its own. Not collective.
  [[nodiscard]] ShardedTensor clone() const;

  [[nodiscard]] ElementType type() const { return type_; }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] const Layout& layout() const { return layout_; }
  /// This rank's part, in global indices.
  [[nodiscard]] const Block& block() const { return block_; }
  /// Elements of this rank's part.
  [[nodiscard]] std::int64_t local_count() const { return element_count(shape_of(block_)); }
  /// This rank's block in device memory.
  [[nodiscard]] void* data() const { return memory_.data(); }

 private:
  [[nodiscard]] MeshContext context() const { return {*device_, *mesh_, *transport_}; }

  Device* device_;
  DeviceMesh* mesh_;
  Transport* transport_;
  ElementType type_;
  Shape shape_;
  Layout layout_;
  Block block_;
  Memory memory_;
};

}  // namespace meshwork

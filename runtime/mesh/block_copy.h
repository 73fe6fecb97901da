// The copies that bring parts of blocks elsewhere, in a program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/device/kernels/copies.h"
#include "runtime/device/program.h"
#include "runtime/mesh/mesh_collectives.h"
#include "runtime/mesh/redistribution.h"
#include "runtime/shape/block_parts.h"

namespace meshwork {

/// `part` out of `source`, which stands from element `source_base` on, into `destination`.
[[nodiscard]] CopyRegion copied_region(const Block& part, const Block& source,
                                       std::int64_t source_base, const Block& destination,
                                       std::int64_t destination_base);

/// Parts of a block, by peer, as a collective takes or leaves them: at `offsets`, in elements.
struct Pieces {
  std::vector<Block> parts;
  std::vector<std::int64_t> counts, offsets;
  bool in_place = false;  // `offsets` are those in the block itself

  /// One behind the other.
  explicit Pieces(const std::vector<Transfer>& transfers);
  /// The same; where they stand in `block`, if each is contiguous there.
  Pieces(const std::vector<Transfer>& transfers, const Block& block);

  /// Of all of them.
  [[nodiscard]] std::int64_t elements() const;
};

/// Books what a lowering does with parts of blocks, under the name of its purpose.
class PieceBooking {
 public:
  PieceBooking(ProgramBuilder& builder, ElementType type, const CollectivePurpose& purpose)
      : builder_(builder), type_(type), purpose_(purpose) {}

 protected:
  [[nodiscard]] Operand scratch(std::int64_t elements, const std::string& what);
  void zero(const Block& block, Operand target);
  /// Copies what is not empty of `regions`.
  void copy(std::vector<CopyRegion> regions, Operand source, Operand target,
            const std::string& what);
  /// Where the pieces of `held`, which stands at `source`, stand as a collective takes them.
  [[nodiscard]] Operand packed(const Pieces& pieces, const Block& held, Operand source);
  /// Brings pieces that stand one behind the other at `received` to their places in `block`.
  void unpack(const Pieces& pieces, Operand received, const Block& block, Operand target);
  /// Where `part` stands, if `block` stands at `source` and it is contiguous in that, or empty.
  [[nodiscard]] Operand within(const Block& part, const Block& block, Operand source) const;

  ProgramBuilder& builder_;
  ElementType type_;
  CollectivePurpose purpose_;
};

}  // namespace meshwork

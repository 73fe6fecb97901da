// CheckpointReader: one checkpoint file, read.
//
// It opens the file for reading, with HDF5 alone: neither MPI nor the mesh that wrote it is needed,
// and any number of processes may read the same file at once, each what it needs. The constructor
// reads the format version, then the state and the list of tensors and regions, and compares all of
// it with its checksums; values are read on demand, any block of any tensor.
//
// A *region* is what one rank wrote in one piece: a block of a tensor, or the bytes of one of the
// small datasets (history, configuration) as a whole. Each has a hash, so that `check` says where
// a file is damaged. A block of other borders is verified by the tensor's sum (contents.h), once
// all of its elements have been read by somebody.
//
//     const CheckpointReader reader("checkpoints/step-000001200.h5");
//     reader.state().step;
//     for (const CheckpointTensor& tensor : reader.tensors()) ...
//     for (const std::string& damage : reader.verify()) ...
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/error.h"
#include "runtime/checkpoint/contents.h"
#include "runtime/mesh/layout.h"

namespace meshwork {

/// A checkpoint cannot be read as what it should be: truncated, damaged, not there, or no
/// checkpoint at all. An older one may do. Everything else is another `Error`: a file of a newer
/// format, which is whole, one that this process may not read, or a disk that does not give back
/// what is on it (`SystemFailure`).
class DamagedCheckpoint : public Error {
 public:
  using Error::Error;
};

/// What one rank wrote in one piece.
struct StoredRegion {
  std::string dataset;     // "params/d1/kernel"
  Block block;             // in elements of the dataset
  std::uint64_t hash = 0;  // XXH64 of its bytes, row-major, little-endian (checksum.h)
};

class CheckpointReader {
 public:
  /// Throws `DamagedCheckpoint` if the file is not there, is no checkpoint or is damaged;
  /// `SystemFailure` if the system does not give it; `Error` if this process may not read it and,
  /// naming both versions, if its format is newer than this program's.
  explicit CheckpointReader(const std::filesystem::path& file);
  ~CheckpointReader();
  CheckpointReader(CheckpointReader&&) noexcept;
  CheckpointReader& operator=(CheckpointReader&&) noexcept;

  [[nodiscard]] const std::filesystem::path& file() const;
  [[nodiscard]] std::int64_t format_version() const;
  /// Whether attributes, types and shapes have checksums, which the constructor has compared. Those
  /// of a file of format version 1 are only looked at for values that cannot be.
  [[nodiscard]] bool protects_attributes() const;
  /// Of the file.
  [[nodiscard]] std::int64_t bytes() const;

  [[nodiscard]] const CheckpointState& state() const;
  /// Variables in the order of their paths, then slots, then kept values.
  [[nodiscard]] const std::vector<CheckpointTensor>& tensors() const;
  /// The tensor with this name ("params/d1/kernel"), or null.
  [[nodiscard]] const CheckpointTensor* find(std::string_view name) const;

  /// Reads `block` of `tensor`, row-major. `destination` has exactly its elements. Throws
  /// `SystemFailure` for what the system does not give, `DamagedCheckpoint` for what else cannot be
  /// read. Sees no wrong bits: that is what sums are for.
  void read(const CheckpointTensor& tensor, const Block& block, std::span<float> destination) const;
  /// The whole of `tensor`, compared with its sum: throws `DamagedCheckpoint` if that is another.
  [[nodiscard]] std::vector<float> read(const CheckpointTensor& tensor) const;

  [[nodiscard]] const std::vector<StoredRegion>& regions() const;
  /// What is damaged of a region, in words that name dataset and place; empty if it is whole. Takes
  /// memory for a part of it only. Throws `SystemFailure`, as `verify`.
  [[nodiscard]] std::string check(const StoredRegion& region) const;
  /// What is wrong with all regions, and with what of a tensor has none; empty if all is whole. Of
  /// several `parts`, over which processes share the work, only number `part`.
  [[nodiscard]] std::vector<std::string> verify(std::int64_t part = 0,
                                                std::int64_t parts = 1) const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace meshwork

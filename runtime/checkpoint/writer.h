// Writing one checkpoint: all ranks together, either a whole file under its name or none.
//
// The ranks agree after each phase, and the first that fails on any of them ends it on all:
//
//   1. Each rank announces its regions with their hashes and sums. Rank 0 proves that they cover
//      every tensor exactly once.
//   2. Rank 0 alone makes the unfinished file (new_file.h) with everything but the tensors' data, and
//      reserves all of its space, so that a full disk is found here.
//      A file of that name which a killed run has left is taken away first: whatever may still be
//      writing into that does no harm.
//   3. Every rank sees whether it can open the file. Then the data: every rank its regions, through
//      parallel HDF5; or all of them through rank 0. Either way the same bytes land at the same
//      places. Who wrote brings what was written to the disk (fsync), which has begun with it long
//      before; then the file is flushed and closed.
//   4. If asked for, or where the MPI's file access is not known to be right, or to tell what goes
//      wrong (mpi_io.h), regions are read back and compared.
//   5. Rank 0 renames the file and has the directory brought to the disk.
//
// A file under its final name is therefore whole. Of the same name there may be an older one, which
// is replaced in one moment; none is ever opened for writing. After a failure the temporary file is
// removed.
//
// A rank that fails in phase 3 goes on with the collective calls that the others are in. Where it
// cannot, because MPI itself failed on it alone, it ends the job with its message: the others would
// wait for it. Closing cannot fail (written_file.h). All calls to HDF5 are made under its lock
// (hdf5_handles.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/trace.h"
#include "runtime/checkpoint/contents.h"
#include "runtime/checkpoint/options.h"
#include "runtime/mesh/layout.h"

namespace meshwork {

/// A tensor, and what this rank writes of it. The ranks have the same tensors in the same order.
struct TensorPart {
  CheckpointTensor tensor;        // its sum is not looked at
  Block region;                   // of this rank, as region_of gives it
  const float* values = nullptr;  // the region's elements, row-major
};

struct WriteOptions {
  CheckpointWriter writer = CheckpointWriter::parallel;
  bool verify = false;
  /// What a rank writes at once. MPI cannot take 2 GiB and more.
  std::int64_t part_bytes = std::int64_t{256} << 20;
  /// Records where this rank waits for the others; null: nowhere.
  CollectiveTrace* trace = nullptr;
};

/// What a checkpoint cost.
struct WriteReport {
  std::int64_t bytes = 0;  // of the file
  double seconds = 0;
};

/// Writes the checkpoint `file`, whose directory is there. Rank 0's `state` is everybody's; what it
/// says of program, writer and time is set here. Collective over `communicator`, which nobody else
/// uses meanwhile. Throws the same `JointError` on all ranks.
WriteReport write_checkpoint(const Communicator& communicator, const std::filesystem::path& file,
                             const CheckpointState& state, std::span<const TensorPart> tensors,
                             const WriteOptions& options);

}  // namespace meshwork

// The two ways by which the data of tensors get into a checkpoint file that is otherwise made.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "runtime/checkpoint/verdict.h"
#include "runtime/checkpoint/writer.h"

namespace meshwork {

/// What is written, where to, and by whom.
struct DataToWrite {
  const Communicator& communicator;
  const std::string& file;
  std::span<const TensorPart> tensors;
  const std::vector<std::string>& names;  // the datasets of `tensors`
  std::int64_t part_bytes;                // as in WriteOptions
  CollectiveTrace* trace;                 // as in WriteOptions
};

/// Every rank writes its regions through parallel HDF5: alone, where each has one stretch of a
/// tensor, else in collective writes, for which MPI gathers small pieces. Then the file is on the
/// disk. Gives, by tensor, whether it was written collectively; the same on all ranks. Collective;
/// what goes wrong on this rank is remembered in `failures`, and the rank goes on with the others.
std::vector<bool> write_data_in_parallel(const DataToWrite& data, Failures& failures);

/// Rank 0 writes what it is sent, part after part, tensor by tensor, each rank's in order, and
/// brings it to the disk.
/// `regions` are those of all ranks for each tensor, by rank; only rank 0 needs them. Collective,
/// as above.
void write_data_through_root(const DataToWrite& data,
                             const std::vector<std::vector<Block>>& regions, Failures& failures);

}  // namespace meshwork

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

/// Every rank writes its regions, in collective writes of parallel HDF5. Collective; what goes
/// wrong on this rank is remembered in `failures`, and the rank goes on with the others. `names`
/// are the datasets of `tensors`.
void write_data_in_parallel(const Communicator& communicator, const std::string& file,
                            std::span<const TensorPart> tensors,
                            const std::vector<std::string>& names, std::int64_t part_bytes,
                            Failures& failures);

/// Rank 0 writes what it is sent, part after part, tensor by tensor, each rank's in order.
/// `regions` are those of all ranks for each tensor, by rank; only rank 0 needs them. Collective,
/// as above.
void write_data_through_root(const Communicator& communicator, const std::string& file,
                             std::span<const TensorPart> tensors,
                             const std::vector<std::string>& names,
                             const std::vector<std::vector<Block>>& regions,
                             std::int64_t part_bytes, Failures& failures);

}  // namespace meshwork

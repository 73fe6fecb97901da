// Which parts of MPI move the bytes of a parallel write.
//
// Open MPI's default for collective writing, fcoll/vulcan, has corrupted files of parallel HDF5
// (open-mpi/ompi #12718), so `MpiEnvironment` asks for others before it starts MPI
// (communicator.h), where neither the user nor the launcher has chosen. What was chosen stands in
// every file; where it is not known to be right, what was written is read back in any case.
//
// Open MPI's collective components that join the pieces of several ranks (all but `individual`)
// keep an error of the disk to themselves: the write seems to have gone well (4.1). What was
// written that way is read back as well.
#pragma once

#include <string>

namespace meshwork {

struct MpiIo {
  std::string description;  // "Open MPI v4.1.4, io default, fcoll dynamic_gen2,individual"
  bool trusted = true;      // false: vulcan may be at work
  /// false: a collective write that fails may look as if it had not.
  bool collectives_tell = true;
};

/// Asks the running MPI, once in the life of the process: Open MPI loads and unloads all of its
/// components for the answer, a fifth of a second. Not collective.
[[nodiscard]] const MpiIo& find_mpi_io();

/// Removes what a process that was killed while MPI opened a file of this name left on this node.
/// While Open MPI opens `file`, a named semaphore guards it (sharedfp/sm: "OMPIO_" and the last
/// component). It outlives processes: who is killed inside leaves it locked, and whoever opens a
/// file of that name there later would wait for ever. To be called on all ranks, with an agreement
/// between it and the opening.
void forget_killed_openings(const std::string& file);

}  // namespace meshwork

// Whether a person looks at what is printed.
#pragma once

namespace meshwork {

/// Whether what is written to `descriptor` (1 is standard output) ends at a terminal. Open MPI
/// gives each rank a pseudo-terminal of its own, whatever becomes of the job's output; so under its
/// launcher it is the launcher's output that counts.
[[nodiscard]] bool ends_at_terminal(int descriptor);

}  // namespace meshwork

// Whether a person looks at what the program prints.
#pragma once

namespace meshwork {

/// Whether standard output ends at a terminal. Open MPI gives each rank a pseudo-terminal of its
/// own, whatever becomes of the job's output; so under a launcher it is the launcher's that counts.
[[nodiscard]] bool output_is_terminal();

}  // namespace meshwork

// Limits of the process that MPI does not survive: of addresses (RLIMIT_AS, `ulimit -v`), which a batch
// system may set for memory's sake, and of open files (RLIMIT_NOFILE, `ulimit -n`).
//
// MPI and oneDNN end with a segmentation fault where they get no memory, and MPI with its own words or
// none where it may open no file. So a program that is to use them first sees whether there is as much
// as it begins with.
#pragma once

#include <string>

namespace meshwork {

/// What is wrong with a limit, in one line with both numbers, for a process that is one of
/// `ranks_on_node`, 0 if that is not known; "" if nothing is. Where addresses are limited, has malloc
/// take one arena for all threads: otherwise each takes 64 MiB of them.
[[nodiscard]] std::string flaw_of_limits(int ranks_on_node);

}  // namespace meshwork

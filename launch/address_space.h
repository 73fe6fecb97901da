// The limit of addresses (RLIMIT_AS, `ulimit -v`), which a batch system may set for memory's sake.
//
// MPI and oneDNN end with a segmentation fault where they get no memory. So a program that is to
// use them first sees whether there are as many addresses as it begins with.
#pragma once

#include <string>

namespace meshwork {

/// What is wrong with the limit of addresses, in one line with both numbers, for a process that is
/// one of `ranks_on_node`, 0 if that is not known; "" if nothing is. Where there is a limit, has
/// malloc take one arena for all threads: otherwise each takes 64 MiB of addresses.
[[nodiscard]] std::string flaw_of_address_space(int ranks_on_node);

}  // namespace meshwork

// The file that keeps which kernels were chosen by timing (kernel_choice.h) from run to run.
//
// It is YAML, a map from platform to a map from specification to candidate:
//
//     "AMD EPYC 9R14, 1 thread, oneDNN 2.6.3":
//       "matmul tn 784x256x32": "primitive"
//
// A file that is not there, or in which nothing stands, holds no records. It is a regular file, or
// a symbolic link to one: a run must not wait for what a pipe or a device may say. What is written
// goes beside it (beside what the link names) and then takes its name, so that nobody reads half of
// it.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "runtime/device/kernel_record.h"

namespace meshwork {

using KernelRecords = std::map<std::string, KernelRecord>;  // by platform

/// What `file` holds. Throws `Error` where it cannot be read or is no regular file, and, with the
/// line and column in it, for what is no such map, or for names that have control characters.
[[nodiscard]] KernelRecords read_kernel_records(const std::filesystem::path& file);

/// Throws `Error` where `file` could not be written now. Leaves it as it is.
void require_writable(const std::filesystem::path& file);

/// Replaces what `file` holds. Throws `Error` where it cannot be written.
void write_kernel_records(const std::filesystem::path& file, const KernelRecords& records);

}  // namespace meshwork

// KernelRecord: which candidate (kernel_candidates.h) was chosen for which specification, and on
// what.
//
// A record is a value: compared, kept in checkpoints and in files, and taken up again. It says
// something only where kernels are as fast as they were there, on the same *platform*: the distinct
// `Device::platform` lines of the ranks that took part.
#pragma once

#include <map>
#include <string>

#include "runtime/device/kernels.h"

namespace meshwork {

struct KernelRecord {
  std::string platform;                       // empty: nothing was timed
  std::map<std::string, std::string> chosen;  // names of candidates, by `key_of`

  /// The name of the candidate for `spec`; null if none was chosen.
  [[nodiscard]] const std::string* find(const KernelSpec& spec) const;
  bool operator==(const KernelRecord&) const = default;
};

/// The line by which a record knows `spec`: equal for equal specifications alone, of those that
/// have candidates.
[[nodiscard]] std::string key_of(const KernelSpec& spec);

}  // namespace meshwork

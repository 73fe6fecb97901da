// KernelRecord: which candidate (kernel_candidates.h) was chosen for which specification, and on
// what.
//
// A record is a value: compared, kept in checkpoints and in files, and taken up again. It says
// something only where kernels are as fast as they were there, on the same *platform*: the distinct
// `Device::platform` lines of the ranks that took part.
#pragma once

#include <map>
#include <string>

#include "runtime/device/kernel_spec.h"

namespace meshwork {

struct KernelRecord {
  std::string platform;                       // empty: nothing was timed
  std::map<std::string, std::string> chosen;  // names of candidates, by `KernelSpec::key`

  /// The name of the candidate for `spec`; null if none was chosen.
  [[nodiscard]] const std::string* find(const KernelSpec& spec) const;
  bool operator==(const KernelRecord&) const = default;
};

}  // namespace meshwork

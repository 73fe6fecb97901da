// FullyShardedDataParallel: weights are split over an axis that splits batches.
//
// Each rank keeps a part of every large variable and of the optimizer's state for it. Variables are
// gathered for use, and their gradients summed and scattered (Rajbhandari et al., "ZeRO", 2020).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/train/distribution.h"
#include "runtime/train/strategies/strategy.h"

namespace meshwork {

struct FullyShardedOptions {
  std::optional<std::string> axis;   // none: the one that splits batches
  std::int64_t min_elements = 1024;  // smaller variables are whole on every rank
};

/// Splits, of each variable that is trained, the first dimension that the ranks divide, or else the
/// longest.
[[nodiscard]] SharedStrategy fully_sharded(const FullyShardedOptions& options = {});
[[nodiscard]] Distribution FullyShardedDataParallel(DeviceMesh& mesh,
                                                    const FullyShardedOptions& options = {},
                                                    const DistributionOptions& distribution = {});

}  // namespace meshwork

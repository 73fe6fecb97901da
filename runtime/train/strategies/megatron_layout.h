// MegatronLayout: weights are split by columns, then by rows (Shoeybi et al., "Megatron-LM", 2019).
//
// A product that is split by columns makes a part of the features, without a message. What works on
// each feature by itself goes on with that part. The next product is split by rows: it takes the part
// as it lies, and the ranks add up its results. So a pair of products, such as those of a
// feed-forward block or the heads of attention, costs one all-reduce.
//
// No kind of layer has code here: pairs are found by the letters of operations.
//   - A weight begins a pair by a letter that the output has and the data lack: its columns, or heads.
//   - The split goes along while the letter stands in all of an operation's operands.
//   - It ends at a product that adds up over the letter, or at an output of the model.
//   - A letter that an operation needs whole, or whose other operands are whole, begins no pair. The
//     next letter of the weight is tried, and last one that it alone has: the rows of a table.
#pragma once

#include <optional>
#include <string>

#include "runtime/train/distribution.h"
#include "runtime/train/strategies/strategy.h"

namespace meshwork {

struct MegatronOptions {
  std::string axis = "model";
};

[[nodiscard]] SharedStrategy megatron(const MegatronOptions& options = {});
[[nodiscard]] Distribution MegatronLayout(DeviceMesh& mesh, const MegatronOptions& options = {},
                                          const DistributionOptions& distribution = {});

}  // namespace meshwork

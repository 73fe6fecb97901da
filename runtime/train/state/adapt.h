// Adapting: the statistics of the training data that layers keep as variables (graph/adapts.h).
//
// Each rank reads its share of the samples once and finds count, mean and sum of squared deviations
// of each channel in float64, batch by batch (Chan, Golub, LeVeque: Updating formulae and a
// pairwise algorithm for computing sample variances, 1979). Two reductions join those of the ranks:
// first the means, then the deviations from the mean of all. So every mesh has one rank's numbers
// to rounding in float64.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/communicator.h"
#include "runtime/data/source.h"
#include "runtime/graph/graph.h"

namespace meshwork {

/// A layer that adapts.
struct AdaptedLayer {
  int input = 0;  // of the model
  TensorId mean = -1, variance = -1;
  std::int64_t channels = 0;
};

/// Those of `graph`. Throws `Error` for one whose input is none of the model's, and for one that is
/// called on several.
[[nodiscard]] std::vector<AdaptedLayer> adapted_layers(const Graph& graph);

/// The float64 values that the first reduction joins, then the second.
[[nodiscard]] std::vector<std::int64_t> reduced_values(const std::vector<AdaptedLayer>& layers);

struct ChannelStatistics {
  std::vector<float> mean, variance;  // (channels)
};

/// Of each of `layers`, over all samples of `data`. Collective; throws the same `Error` on all
/// ranks: for no samples, samples that cannot be read, and statistics that are not finite.
[[nodiscard]] std::vector<ChannelStatistics> statistics_of(
    const std::vector<AdaptedLayer>& layers, const std::shared_ptr<const Source>& data,
    const Communicator& ranks);

}  // namespace meshwork

#include "runtime/train/state/adapt.h"

#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/hosted.h"
#include "collectives/with_type.h"
#include "collectives/wrong_input.h"
#include "runtime/data/batches.h"
#include "runtime/graph/adapts.h"
#include "runtime/graph/layer.h"
#include "runtime/shape/partition.h"

namespace meshwork {
namespace {

// Of one rank's share so far.
struct Moments {
  double count = 0;  // of values, the same for every channel
  std::vector<double> mean, deviations;
};

// Joins `values`, (rows, channels).
template <class T>
void join(Moments& moments, std::span<const T> values) {
  const std::size_t channels = moments.mean.size();
  const auto rows = static_cast<double>(values.size() / channels);
  if (rows == 0) return;
  std::vector<double> mean(channels, 0), deviations(channels, 0);
  for (std::size_t i = 0; i < values.size(); ++i)
    mean[i % channels] += static_cast<double>(values[i]);
  for (double& sum : mean) sum /= rows;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double away = static_cast<double>(values[i]) - mean[i % channels];
    deviations[i % channels] += away * away;
  }
  const double count = moments.count + rows;
  for (std::size_t channel = 0; channel < channels; ++channel) {
    const double away = mean[channel] - moments.mean[channel];
    moments.mean[channel] += away * rows / count;
    moments.deviations[channel] += deviations[channel] + away * away * moments.count * rows / count;
  }
  moments.count = count;
}

// Of the rows of `share`, whose field is `field`.
Moments moments_of(const std::shared_ptr<const Source>& share, int field, std::int64_t channels) {
  Moments moments{.mean = std::vector<double>(channels, 0),
                  .deviations = std::vector<double>(channels, 0)};
  if (share->rows() == 0) return moments;
  const Field& read = share->field(field);
  constexpr std::int64_t most_bytes = std::int64_t{1} << 24;  // at a time
  const std::int64_t sample =
      std::max<std::int64_t>(1, element_count(read.shape) * element_bytes(read.type));
  const std::int64_t batch = std::clamp<std::int64_t>(most_bytes / sample, 1, share->rows());
  FeedField fed{.field = field, .blocks = {}};
  for (const std::int64_t rows : batch_row_counts(share->rows(), batch)) {
    Shape shape = read.shape;
    shape.insert(shape.begin(), rows);
    fed.blocks.push_back(whole(shape));
  }
  Feeder feeder({.source = share,
                 .fields = {std::move(fed)},
                 .batch_size = batch,
                 .epochs = 1,
                 .prefetch = Prefetch::never});
  while (const HostBatch* values = feeder.next()) {
    with_type(read.type, [&](auto number) {
      using T = decltype(number);
      join(moments, std::span(reinterpret_cast<const T*>(values->fields.front()),
                              static_cast<std::size_t>(values->bytes.front()) / sizeof(T)));
    });
  }
  return moments;
}

void sum_over(const Communicator& ranks, std::vector<double>& values) {
  await_ranks(ranks);
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE,
                          MPI_SUM, ranks.native()),
            "MPI_Allreduce");
}

}  // namespace

std::vector<AdaptedLayer> adapted_layers(const Graph& graph) {
  std::vector<AdaptedLayer> found;
  for (const GraphOperation& operation : graph.operations) {
    if (operation.layer < 0) continue;
    const GraphLayer& layer = graph.layers[operation.layer];
    const auto* adapting = dynamic_cast<const AdaptsToData*>(layer.layer.get());
    if (adapting == nullptr || !adapting->adapts()) continue;
    const auto input =
        std::find(graph.inputs.begin(), graph.inputs.end(), operation.inputs.front());
    if (input == graph.inputs.end()) {
      fail(
          "{}: adapts to the training data, but its input is no input of the model; set its mean "
          "and variance",
          layer.path);
    }
    AdaptedLayer adapted{.input = static_cast<int>(input - graph.inputs.begin())};
    for (const TensorId tensor : operation.inputs) {
      const std::string& path = graph.tensors[tensor].path;
      if (path.ends_with("/mean")) adapted.mean = tensor;
      if (path.ends_with("/variance")) adapted.variance = tensor;
    }
    adapted.channels = graph.tensors[adapted.mean].shape.back();
    if (std::any_of(found.begin(), found.end(),
                    [&](const AdaptedLayer& other) { return other.mean == adapted.mean; })) {
      fail("{}: adapts to the training data, but it is called twice; set its mean and variance",
           layer.path);
    }
    found.push_back(adapted);
  }
  return found;
}

std::vector<std::int64_t> reduced_values(const std::vector<AdaptedLayer>& layers) {
  if (layers.empty()) return {};
  std::int64_t channels = 0;
  for (const AdaptedLayer& layer : layers) channels += layer.channels;
  return {channels + static_cast<std::int64_t>(layers.size()), channels};
}

std::vector<ChannelStatistics> statistics_of(const std::vector<AdaptedLayer>& layers,
                                             const std::shared_ptr<const Source>& data,
                                             const Communicator& ranks) {
  std::vector<Moments> moments;
  together(ranks, [&] {
    if (data->rows() == 0) fail("there are no samples to adapt to");
    const Range share = block_range(data->rows(), ranks.size(), ranks.rank());
    const auto own = std::make_shared<Subset>(data, share.begin, share.end);
    for (const AdaptedLayer& layer : layers) {
      moments.push_back(moments_of(own, layer.input, layer.channels));
    }
  });
  std::vector<double> sums;
  for (const Moments& one : moments) {
    sums.push_back(one.count);
    for (const double mean : one.mean) sums.push_back(mean * one.count);
  }
  sum_over(ranks, sums);
  std::vector<ChannelStatistics> statistics(layers.size());
  std::vector<double> deviations, counts;
  const double* sum = sums.data();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    counts.push_back(*sum++);
    for (std::int64_t channel = 0; channel < layers[i].channels; ++channel) {
      const double mean = *sum++ / counts.back();
      const double away = moments[i].mean[channel] - mean;
      deviations.push_back(moments[i].deviations[channel] + moments[i].count * away * away);
      statistics[i].mean.push_back(static_cast<float>(mean));
    }
  }
  sum_over(ranks, deviations);
  const double* deviation = deviations.data();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    for (std::int64_t channel = 0; channel < layers[i].channels; ++channel) {
      statistics[i].variance.push_back(static_cast<float>(*deviation++ / counts[i]));
      if (!std::isfinite(statistics[i].mean[channel]) ||
          !std::isfinite(statistics[i].variance.back())) {
        throw WrongInput(fmt::format(
            "the training data, field {}: channel {} has the mean {} over all samples; expected "
            "finite numbers",
            data->field(layers[i].input).name, channel,
            std::isfinite(statistics[i].mean[channel]) ? "and a variance beyond float32"
            : std::isnan(statistics[i].mean[channel])  ? "nan"
                                                       : "inf"));
      }
    }
  }
  return statistics;
}

}  // namespace meshwork

// Normalization: inputs brought to mean 0 and variance 1 by what the training data have.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/config/node.h"
#include "runtime/graph/layer.h"

namespace meshwork {

/// A number for every channel, or a list of one for each.
struct ChannelValues {
  static constexpr const char* expected = "a number, or a list of one for each channel";
  std::vector<double> values;
  ChannelValues() = default;
  ChannelValues(double of_all) : values{of_all} {}
  ChannelValues(std::vector<double> of_each) : values(std::move(of_each)) {}
  bool operator==(const ChannelValues&) const = default;
};
void from_config(const ConfigNode& node, ChannelValues& of_channels);
[[nodiscard]] std::string to_text(const ChannelValues& of_channels);
/// Those of which options check the range.
[[nodiscard]] inline const std::vector<double>& numbers_of(const ChannelValues& of_channels) {
  return of_channels.values;
}

struct NormalizationOptions {
  std::string name;
  int axis = -1;  // the dimension of the channels: the last, and no other
  std::optional<ChannelValues> mean, variance;  // none: as the training data have them
  bool invert = false;
};

/// y = (x - mean) / sqrt(variance + 1e-14), channel by channel, on the last dimension of an input
/// of two dimensions or more; inverted, y = x * sqrt(variance) + mean. Keras has
/// max(sqrt(variance), 1e-7) for the deviation
/// (keras.io/api/layers/preprocessing_layers/numerical/normalization). Variables, not trained:
/// `mean` and `variance`, (channels), and where they are found, `count`, which is 0. Without
/// numbers for both, Model::adapt finds them, as `meshwork train` does before the first step.
/// Throws `Error` if one of the two is given alone; when called, for an input of fewer dimensions,
/// and for lists of another length.
[[nodiscard]] SharedLayer Normalization(NormalizationOptions options = {});

}  // namespace meshwork

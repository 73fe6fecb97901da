// The messages of TensorBoard's event files (events.proto), as the bytes of records
// (event_files.h).
//
// The protobuf library writes and reads them. A program that was built without it has none of this:
// `writes_events` says so, and everything else throws.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/train/loop/training.h"

namespace meshwork {

/// Whether the program was built with the protobuf library.
[[nodiscard]] bool writes_events();

/// The first of a file, which says that it is ours.
[[nodiscard]] std::string version_event(double seconds);
/// The START of a session: what a reader has seen of `step` and later ones does not count any more,
/// unless it is the first START that it sees.
[[nodiscard]] std::string start_event(double seconds, std::int64_t step);
/// A tag and a value each.
[[nodiscard]] std::string scalars_event(double seconds, std::int64_t step,
                                        std::span<const std::pair<std::string, double>> scalars);
/// Under "PATH/histogram" each.
[[nodiscard]] std::string histograms_event(double seconds, std::int64_t step,
                                           std::span<const WeightHistogram> histograms);

/// How tags begin whose steps are updates; those of others are epochs.
inline constexpr std::string_view batch_prefix = "batch_", evaluation_prefix = "evaluation_";

/// What has to be known of an event of a file.
struct EventFacts {
  std::int64_t step = 0;
  bool has_values = false;
  bool counts_updates = false;  // its step is a number of updates
  bool is_our_version = false;  // the first of a file that is ours
};
/// None for what is no event.
[[nodiscard]] std::optional<EventFacts> facts_of(std::string_view event);

}  // namespace meshwork

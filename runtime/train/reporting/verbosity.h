// Verbosity: how much a run prints, by rank 0. Keras's `verbose`: 0, 1, 2 and "auto".
#pragma once

#include <cstdint>

namespace meshwork {

/// Nothing, a bar that moves, a line an epoch. `automatic` is a bar on a terminal and lines
/// elsewhere.
enum class Verbosity : std::uint8_t { silent, bar, lines, automatic };

}  // namespace meshwork

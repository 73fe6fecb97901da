// Pieces of sequences: some consecutive positions of tensors (outer, positions, inner).
//
// Where a piece begins is known when a step runs: StepScalars::position.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/device/kernels/page.h"

namespace meshwork {

/// A piece (outer, positions, inner) is cut out of a whole (outer, all, inner), from its position
/// StepScalars::position + first on. Operands: whole, StepScalars, piece.
struct CutPieceSpec {
  std::int64_t outer = 0, positions = 0, inner = 0;
  std::int64_t all = 0;
  std::int64_t first = 0;
  [[nodiscard]] std::string text() const {
    return spec::sized("cut piece", {outer, positions, inner});
  }
  [[nodiscard]] KernelWork work() const {
    return spec::elements(2 * spec::product({outer, positions, inner}));
  }
};

/// The way back: a piece becomes the whole's positions from StepScalars::position on. Operands:
/// piece, StepScalars, whole, which is kept but for these.
struct KeepPieceSpec {
  std::int64_t outer = 0, positions = 0, inner = 0;
  std::int64_t all = 0;
  [[nodiscard]] std::string text() const {
    return spec::sized("keep piece", {outer, positions, inner});
  }
  [[nodiscard]] KernelWork work() const {
    return spec::elements(2 * spec::product({outer, positions, inner}));
  }
};

}  // namespace meshwork

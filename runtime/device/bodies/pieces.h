// Pieces of sequences, cut out of a whole and put into it. Bound by memory traffic.
#pragma once

#include "runtime/device/body_forms.h"
#include "runtime/device/kernels/pieces.h"
#include "runtime/device/kernels/step_scalars.h"

namespace meshwork::bodies {

/// A row is a position of a piece.
template <bool cuts>
struct PieceRows {
  const float* from;
  float* to;
  const StepScalars* scalars;
  std::int64_t positions, inner, all, first;
  [[nodiscard]] MESHWORK_HOST_DEVICE auto row(std::int64_t row) const {
    const std::int64_t in_piece = row * inner;
    const std::int64_t in_whole =
        (row / positions * all + scalars->position + first + row % positions) * inner;
    return [from = from + (cuts ? in_whole : in_piece), to = to + (cuts ? in_piece : in_whole)](
               std::int64_t column, std::int64_t) { to[column] = from[column]; };
  }
};

template <class Loops>
void add_pieces(auto& kernels) {
  kernels.template add<CutPieceSpec>([](const CutPieceSpec& spec, const auto& context) {
    return Loops::grid(context, spec.outer * spec.positions, spec.inner, 8,
                       [=](void* const* operands) {
                         return PieceRows<true>{
                             at(operands, 0), at(operands, 2), at<const StepScalars>(operands, 1),
                             spec.positions,  spec.inner,      spec.all,
                             spec.first};
                       });
  });
  kernels.template add<KeepPieceSpec>([](const KeepPieceSpec& spec, const auto& context) {
    return Loops::grid(context, spec.outer * spec.positions, spec.inner, 8,
                       [=](void* const* operands) {
                         return PieceRows<false>{at(operands, 0),
                                                 at(operands, 2),
                                                 at<const StepScalars>(operands, 1),
                                                 spec.positions,
                                                 spec.inner,
                                                 spec.all,
                                                 0};
                       });
  });
}

}  // namespace meshwork::bodies
